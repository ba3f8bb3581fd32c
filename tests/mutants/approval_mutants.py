"""The rules of a restore's approval by a second person, each with a way to break it."""

from __future__ import annotations

from mutants.mutants import Mutant

_APPROVAL = "consumers/tidegate/restores/approval.py"
_RECORDS = "consumers/tidegate/restores/approval_records.py"
_EXECUTOR = "consumers/tidegate/restores/executor.py"
_TESTS = "tests/restores/test_restore_approval.py"

APPROVAL_MUTANTS = (
    Mutant(
        "a rule covers a place however it is called",
        _RECORDS,
        (("self._rules.rule_of(*spellings_of(location))", "self._rules.rule_of(location)"),),
        f"{_TESTS} -k no_name_of_a_table",
    ),
    Mutant(
        "links on the way to a rule's directory are looked up",
        "consumers/tidegate/tables/warehouse/spellings.py",
        (('        found["/".join([escape(resolved.rstrip("/")), *names[plain:]])] = None\n', ""),),
        f"{_TESTS} -k no_name_of_a_table",
    ),
    Mutant(
        "a name decides on no approval",
        "consumers/tidegate/service/settings/restores.py",
        (('            if rule.tables != "*":\n', '            if rule.tables == "":\n'),),
        "tests/service/settings/test_restore_settings.py -k which_the_requester_chooses",
    ),
    Mutant(
        "nobody approves what they asked for, by name",
        _APPROVAL,
        (("    if approval.names & request.names:\n", "    if False:\n"),),
        f"{_TESTS} -k does_not_count",
    ),
    Mutant(
        "the name in a signed request counts beside the key's",
        _APPROVAL,
        (("map(_as_compared, [self.command.asked_by, *signed])", "map(_as_compared, signed)"),),
        f"{_TESTS} -k in_the_other_s_name",
    ),
    Mutant(
        "an approval counts for a time only",
        _APPROVAL,
        (("    if approval.at > expires:\n", "    if approval.at == expires:\n"),),
        f"{_TESTS} -k counts_for_a_time",
    ),
    Mutant(
        "the plan made now has to be the approved one",
        _APPROVAL,
        (("    if approval.plan_id not in plan.approved_by:\n", "    if not plan.approved_by:\n"),),
        f"{_TESTS} -k made_again",
    ),
    Mutant(
        "an approval is of the request that it names",
        _RECORDS,
        ((" or event.event_id != event_id:\n", ":\n"), ("event_id.encode() not in", "b'' not in")),
        f"{_TESTS} -k does_not_count",
    ),
    Mutant(
        "an approval is of a request for its own table",
        _APPROVAL,
        (
            (
                "(ours.table, ours.location) == (theirs.table, theirs.location)",
                "(True or ours.location == theirs.location)",
            ),
        ),
        f"{_TESTS} -k another_table",
    ),
    Mutant(
        "a request comes before its approval",
        _APPROVAL,
        (("        and request.offset < approval.offset\n", ""),),
        f"{_TESTS} -k before_its_request",
    ),
    Mutant(
        "only who is listed approves",
        _APPROVAL,
        (("    if not any(fnmatchcase(approval.who,", "    if not rule or all(fnmatchcase('',"),),
        f"{_TESTS} -k does_not_count",
    ),
    Mutant(
        "a request is approved once",
        _APPROVAL,
        (("not in (None, approval.event_id):\n", "in ('none',):\n"),),
        f"{_TESTS} -k its_own_approval_alone",
    ),
    Mutant(
        "what may not be carried out is neither a request nor an approval",
        _RECORDS,
        (
            (
                "        except Unauthorized:\n            return None\n",
                "        except Unauthorized:\n            signed_by = None\n",
            ),
        ),
        f"{_TESTS} -k unsigned_request",
    ),
    Mutant(
        "a restore that needs an approval is not carried out without one",
        _EXECUTOR,
        (
            (
                "if rule is not None and approval is None:",
                "if rule is not None and approval is self:",
            ),
        ),
        f"{_TESTS} -k waits",
    ),
    Mutant(
        "a request that waits is not carried out when it is read again",
        _EXECUTOR,
        (
            (
                "RestoreCompleted | RestorePlanned | RestoreAwaitingApproval",
                "RestoreCompleted | RestorePlanned",
            ),
        ),
        f"{_TESTS} -k repeat_of_the_request",
    ),
)

_CONDEMNED = "consumers/tidegate/savepoints/condemned.py"
_CONDEMNED_TESTS = "tests/savepoints/test_condemned_commits.py"

CONDEMNED_MUTANTS = (
    Mutant(
        "a condemned commit alone restores nothing",
        _CONDEMNED,
        (("needs_approval=action is CondemnedAction.RESTORE", "needs_approval=False"),),
        f"{_CONDEMNED_TESTS} -k needs_an_approval_and_covers",
    ),
    Mutant(
        "a request that needs an approval is refused where none is configured",
        _EXECUTOR,
        (("            if rule is None and command.needs_approval:\n", "            if False:\n"),),
        f"{_CONDEMNED_TESTS} -k knows_of_none",
    ),
    Mutant(
        "the settings restore after an approval only",
        "consumers/tidegate/service/settings/restores.py",
        (
            (
                '        if self.condemned == "restore" and not self.approval:\n',
                "        if False:\n",
            ),
        ),
        f"{_CONDEMNED_TESTS} -k without_approval_is_no_answer",
    ),
    Mutant(
        "the savepoint is from before the condemned commit",
        "consumers/tidegate/savepoints/policy_state.py",
        (("for each in known if each < instant)", "for each in known if each <= instant)"),),
        f"{_CONDEMNED_TESTS} -k never_by",
    ),
    Mutant(
        "a condemned commit is answered once",
        _CONDEMNED,
        ((" or event.instant in state.condemned:\n", ":\n"),),
        f"{_CONDEMNED_TESTS} -k repeat",
    ),
    Mutant(
        "a forged instant of the future does not widen what a request covers",
        "consumers/tidegate/savepoints/policy.py",
        (
            (
                " and not is_in_the_future(event.instant, at):\n            state",
                ":\n            state",
            ),
        ),
        f"{_CONDEMNED_TESTS} -k widens_nothing",
    ),
)
