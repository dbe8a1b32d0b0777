"""The file that a shell sources to use a sandbox: environment variables for kubectl and the AWS CLI, and how to undo them.

Called by `sandbox` for `holdfast sandbox` and `holdfast demo`. The file works in sh, bash and zsh, also when it is
sourced twice. Only lines that start with `export` set variables of the sandbox, one each.
"""

import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Final

UNDO: Final = "holdfast_off"  # the shell function

# Settings of the user that the AWS CLI would prefer, or that make it fail with the sandbox.
_UNSET: Final = (
    "AWS_PROFILE",
    "AWS_DEFAULT_PROFILE",
    "AWS_SESSION_TOKEN",
    "AWS_SECURITY_TOKEN",
    "AWS_CREDENTIAL_EXPIRATION",
    *(
        f"AWS_ENDPOINT_URL_{name}"
        for name in ("EC2", "SSM", "IAM", "EKS", "PRICING", "SQS", "STS", "EVENTBRIDGE")
    ),
)
_PROXIES: Final = ("NO_PROXY", "no_proxy")


def cli_settings(folder: Path) -> dict[str, str]:
    """Variables for both versions of the AWS CLI, so that the files and settings of the user change nothing."""
    return {
        "AWS_CONFIG_FILE": str(folder / "aws-config"),  # absent, so `aws configure` creates it here
        "AWS_SHARED_CREDENTIALS_FILE": str(folder / "aws-credentials"),
        "AWS_IGNORE_CONFIGURED_ENDPOINT_URLS": "false",
        "AWS_USE_FIPS_ENDPOINT": "false",
        "AWS_USE_DUALSTACK_ENDPOINT": "false",
        "AWS_PAGER": "",
        "AWS_CLI_AUTO_PROMPT": "off",
    }


def script(variables: Mapping[str, str]) -> str:
    exports = "".join(f"export {name}={shlex.quote(value)}\n" for name, value in variables.items())
    return _SCRIPT.format(
        undo=UNDO,
        names=" ".join((*variables, *_UNSET, *_PROXIES)),
        unset=" ".join(_UNSET),
        exports=exports,
    )


# zsh does not split variables into words, so the names are written out twice. The AWS CLI sends requests for loopback
# to a proxy unless NO_PROXY lists it; kubectl does not.
_SCRIPT: Final = """\
# Source this file in bash, zsh or sh. `{undo}` restores the environment.
if command -v {undo} >/dev/null 2>&1; then {undo}; fi
for holdfast_name in {names}; do
  eval "if [ -n \\"\\${{$holdfast_name+set}}\\" ]; then HOLDFAST_OLD_$holdfast_name=\\$$holdfast_name; fi"
done
unset holdfast_name
{undo}() {{
  for holdfast_name in {names}; do
    unset "$holdfast_name"
    eval "if [ -n \\"\\${{HOLDFAST_OLD_$holdfast_name+set}}\\" ]; then export $holdfast_name=\\"\\$HOLDFAST_OLD_$holdfast_name\\"; fi"
    unset "HOLDFAST_OLD_$holdfast_name"
  done
  unset holdfast_name
  unset -f {undo}
}}
unset {unset}
NO_PROXY=127.0.0.1${{NO_PROXY:+,$NO_PROXY}}; no_proxy=127.0.0.1${{no_proxy:+,$no_proxy}}; export NO_PROXY no_proxy
{exports}"""
