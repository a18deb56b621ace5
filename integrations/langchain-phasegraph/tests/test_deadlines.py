"""What our retrievers promise of time and length in any framework, in LangChain."""

import test_suite

from phasegraph.testing.deadline_suite import DeadlineSuite


class TestDeadlines(DeadlineSuite):
    framework = test_suite.TestLangChain()
