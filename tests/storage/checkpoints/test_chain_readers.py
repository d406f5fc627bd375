from __future__ import annotations

from deerflow.storage.checkpoints.chain import Chain, Chains, Write


def test_what_was_read_while_a_run_wrote_does_not_count() -> None:
    chains = Chains()
    chains.put("t", "", Chain("c1"))
    seen = chains.seen("t", "")
    assert chains.unchanged("t", "", seen)
    chain = chains.get("t", "", "c1")
    assert chain is not None
    chain.record([Write("", "task", 0, "messages", "a")])
    assert not chains.unchanged("t", "", seen)
    seen = chains.seen("t", "")
    chain.advance("c2", {}, {}, {})
    assert not chains.unchanged("t", "", seen)
    seen = chains.seen("t", "")
    chains.put("t", "", Chain("c2"))
    assert not chains.unchanged("t", "", seen)
    assert chains.seen("other", "") == (None, 0)
