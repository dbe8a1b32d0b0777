# The image of Holdfast: docker build -t holdfast . (`make image` adds version, labels and reproducible times)
#
# BASE needs Python 3.13 with pip, RUN_BASE only Python 3.13: the same version, since the code is compiled for it.
# Nothing in RUN_BASE is run while the image is built, so it may be one without a shell.
ARG BASE=docker.io/library/python:3.13-slim
ARG RUN_BASE=${BASE}

FROM ${BASE} AS build
ENV PYTHONHASHSEED=0 PYTHONDONTWRITEBYTECODE=1 PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1
WORKDIR /src
COPY requirements/wheel.txt requirements/runtime.txt requirements/
RUN python3 -m venv /tools && /tools/bin/pip install --quiet --require-hashes --requirement requirements/wheel.txt
RUN /tools/bin/pip install --quiet --no-compile --require-hashes --requirement requirements/runtime.txt --target /opt/holdfast
COPY pyproject.toml hatch_build.py README.md LICENSE CHANGELOG.md ./
COPY scripts/build_kernel.py scripts/git_version.py scripts/image_contents.py scripts/
COPY src src
ARG VERSION=0.0.0.dev0
# The kernel is translated to C and compiled with zig, as in the wheels.
RUN CC="/tools/bin/python -m ziglang cc -target $(uname -m)-linux-gnu" HOLDFAST_VERSION="${VERSION}" \
    /tools/bin/pip install --quiet --no-compile --no-deps --no-build-isolation --target /opt/holdfast . \
    && rm -rf /opt/holdfast/bin
ARG SOURCE_DATE_EPOCH=0
RUN python3 scripts/image_contents.py /opt/holdfast --version "${VERSION}" --time "${SOURCE_DATE_EPOCH}" \
    && python3 -m compileall -q -f -j 1 --invalidation-mode unchecked-hash /opt/holdfast

FROM ${RUN_BASE}
ARG VERSION=0.0.0.dev0
ARG REVISION=unknown
LABEL org.opencontainers.image.title="holdfast" \
      org.opencontainers.image.description="A node autoscaler for Kubernetes that fills capacity reservations first" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}"
COPY --from=build /opt/holdfast /opt/holdfast
# The code is compiled already, and the root may be read-only. Python is process 1: `holdfast run` handles SIGTERM.
ENV PYTHONPATH=/opt/holdfast PYTHONDONTWRITEBYTECODE=1 PYTHONSAFEPATH=1 PYTHONUNBUFFERED=1
USER 65532:65532
EXPOSE 8080 8081
ENTRYPOINT ["python3", "-m", "holdfast"]
CMD ["run"]
