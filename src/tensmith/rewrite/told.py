"""Exact rules whose steps have parameters: what else they need to know than a site."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from typing import Any

from tensmith.errors import ProgramError
from tensmith.rewrite.rule import EXACT, NodeRule, Rule, Step


class ToldRule(NodeRule):
    """A rule that is proved for all parameters, and acts where a step gives it some."""

    def told(self, params: Mapping[str, Any]) -> Rule:
        """The same rule with the parameters of a step, which rests on the same lemmas; ProgramError for any
        that make no sense."""
        made = self._having(params)
        made.name, made.order, made.phase = self.name, self.order, self.phase
        return made

    @abstractmethod
    def _having(self, params: Mapping[str, Any]) -> Rule:
        """A rule of this class with such parameters."""


def rule_of(step: Step) -> Rule:
    """The rule of an exact step, told its parameters; ProgramError for those that it does not take."""
    rule = EXACT[step.rule]
    if isinstance(rule, ToldRule):
        return rule.told(step.params)
    if step.params:
        raise ProgramError(f"rule '{step.rule}' takes no parameters, and was given {', '.join(step.params)}")
    return rule
