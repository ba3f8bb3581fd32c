"""The rules of who may have what done, each with a way to break it."""

from __future__ import annotations

from mutants.mutants import Mutant

_AUTHORIZER = "consumers/tidegate/authorization/authorizer.py"
_KEYS = "consumers/tidegate/authorization/keys.py"
_CLAIMS = "schemas/tidegate/events/signature.py"
_RUNNER = "consumers/tidegate/runtime/executor/command_runner.py"
_SIGNED = "tests/authorization/test_signed_commands.py"
_POLICY = "tests/savepoints/test_savepoint_policy.py"

SECURITY_MUTANTS = (
    Mutant(
        "an unsigned command is refused where signatures are required",
        _AUTHORIZER,
        (("                if self._required:\n", "                if not self._keys:\n"),),
        f"{_SIGNED} -k unsigned",
    ),
    Mutant(
        "an expired signature is refused",
        _AUTHORIZER,
        (("        if at > signature.expires:\n", "        if at == signature.expires:\n"),),
        f"{_SIGNED} -k expired",
    ),
    Mutant(
        "a key counts only for what its entry says",
        _AUTHORIZER,
        (("(why := key.refuses(command, at)) is not None", "(why := '')"),),
        f"{_SIGNED} -k counts_only",
    ),
    Mutant(
        "a key's tables are compared",
        _KEYS,
        (
            (
                "        if not any(fnmatchcase(command.table",
                "        if all(fnmatchcase(command.table",
            ),
        ),
        f"{_SIGNED} -k counts_only",
    ),
    Mutant(
        "the verified name is compared with the list, not the one in the request",
        _AUTHORIZER,
        (
            (
                "self._check_listed(signed_by.name if signed_by else command.requested_by)",
                "self._check_listed(command.requested_by)",
            ),
        ),
        f"{_SIGNED} -k verified_name",
    ),
    Mutant(
        "a signature is bound to its deployment's topic",
        _CLAIMS,
        (('        "aud": topic,\n', ""),),
        f"{_SIGNED} -k forged_signature",
    ),
    Mutant(
        "a signature is bound to the command's content",
        _CLAIMS,
        (("sha256(canonical(command)).digest()", "sha256(command.table.encode()).digest()"),),
        f"{_SIGNED} -k forged_signature",
    ),
    Mutant(
        "a refused copy does not answer the real command",
        _RUNNER,
        ((' if getattr(each, "reason", None) not in NOT_PROVEN]', "]"),),
        f"{_SIGNED} -k refused_copy",
    ),
    Mutant(
        "what a table's file says of who signed counts for nothing",
        _RUNNER,
        (("self._publish(_with_asker(outcome, command, signed_by))", "self._publish(outcome)"),),
        "tests/runtime/test_who_asked.py",
    ),
    Mutant(
        "an instant in the future is refused",
        "consumers/tidegate/savepoints/policy.py",
        (("        if is_in_the_future(event.instant, at):\n", "        if not event.instant:\n"),),
        f"{_POLICY} -k future",
    ),
    Mutant(
        "a commit that may be new is never taken for a forgotten one",
        "consumers/tidegate/savepoints/policy_state.py",
        ((" and is_long_ago(instant, at)", ""),),
        f"{_POLICY} -k some_hours_late",
    ),
)
