"""The file format of `holdfast record`: a header, then one line of JSON for each change.

`scenarios.history` writes the lines, `simulate.recordings` reads them. Times are whole seconds since the beginning of the
recording, in the order of the file. `ago` corrects a change that was written later than it happened. Ids are numbers that
are unique in the file, for each type of line.
"""

from typing import Annotated, Any, Final, Literal

import msgspec

VERSION: Final = 1
LINE_MAX: Final = 16 * 1024 * 1024  # bytes; pseudonyms make a pod of the API server a few times as large
JOB: Final = "@job"  # as a label value: the name of the Job that the pod belongs to
_MAX: Final = 2**53

Count = Annotated[int, msgspec.Meta(ge=0, le=1_000_000)]
Number = Annotated[int, msgspec.Meta(ge=0, le=_MAX)]  # an id, or seconds
Namespace = Annotated[str, msgspec.Meta(pattern="^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$")]
Json = dict[str, Any]


class Header(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The first line."""

    holdfast_record: Annotated[int, msgspec.Meta(ge=1)] = msgspec.field(name="holdfastRecord")
    begins: Number  # seconds since the epoch
    holdfast: str = ""  # the version of the program that wrote the file


class _Line(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="k"):
    t: Number = 0


class Shape(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="k", tag="shape"):
    """The part of a pod that decides where it may run. Later lines refer to it."""

    id: Number
    ns: Namespace
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    spec: Json = {}
    volumes: Count = 0  # PersistentVolumeClaims of the pod, which the spec does not have


class Group(_Line, frozen=True, kw_only=True, omit_defaults=True, tag="group"):
    """A controller that keeps a number of equal pods."""

    id: Number
    kind: Annotated[str, msgspec.Meta(pattern="^[A-Za-z]{1,63}$")]
    shape: Number
    count: Count
    ago: Number = 0


class Replicas(_Line, frozen=True, kw_only=True, omit_defaults=True, tag="count"):
    """A group has another number of pods."""

    group: Number
    count: Count
    ago: Number = 0


class Rollout(_Line, frozen=True, kw_only=True, omit_defaults=True, tag="rollout"):
    """A group has another template."""

    group: Number
    shape: Number


class Daemon(_Line, frozen=True, kw_only=True, omit_defaults=True, tag="daemon"):
    """A DaemonSet, or its new template. Without a shape: it is deleted."""

    id: Number
    shape: Number | None = None


class Run(_Line, frozen=True, kw_only=True, omit_defaults=True, tag="run"):
    """A pod that ends, or that no controller replaces. Pods of one Job have the same number."""

    id: Number
    shape: Number
    job: Number | None = None
    ago: Number = 0


class End(_Line, frozen=True, kw_only=True, omit_defaults=True, tag="end"):
    """A pod of a `Run` ended."""

    run: Number
    ran: Number | None = None  # seconds from running to its end; None: it never ran
    how: Literal["succeeded", "failed", "deleted"] = "succeeded"
    ago: Number = 0


class Budget(_Line, frozen=True, kw_only=True, omit_defaults=True, tag="budget"):
    """A PodDisruptionBudget, or its new spec."""

    id: Number
    ns: Namespace
    spec: Json


class Gap(_Line, frozen=True, kw_only=True, omit_defaults=True, tag="gap"):
    """The cluster could not be followed until now. Pods that came and ended meanwhile may be missing."""

    lasted: Number


class Tick(_Line, frozen=True, kw_only=True, omit_defaults=True, tag="tick"):
    """Nothing changed until now."""


class Stop(_Line, frozen=True, kw_only=True, omit_defaults=True, tag="stop"):
    """The last line of a recording that was not interrupted."""


Line = Shape | Group | Replicas | Rollout | Daemon | Run | End | Budget | Gap | Tick | Stop
