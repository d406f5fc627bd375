"""Documents: preferences, feedback, assistants."""

import pytest

from deerflow.errors import ConflictError, ThreadGoneError
from deerflow.storage.protocol import AssistantRow, FeedbackRow, Storage


async def test_preferences_are_a_users_own(storage: Storage) -> None:
    await storage.documents.prefer("ann", "theme", "dark")
    await storage.documents.prefer("ann", "layout", {"left": [1, None]})
    await storage.documents.prefer("bob", "theme", "light")
    await storage.documents.prefer("ann", "theme", "pale")

    assert await storage.documents.preference("ann", "theme") == "pale"
    assert await storage.documents.preference("ann", "none") is None
    assert await storage.documents.preferences("ann") == {
        "theme": "pale", "layout": {"left": [1, None]},
    }  # fmt: skip
    await storage.documents.prefer("ann", "theme", None)
    await storage.documents.prefer("ann", "none", None)
    assert await storage.documents.preferences("ann") == {"layout": {"left": [1, None]}}
    assert await storage.documents.preferences("bob") == {"theme": "light"}


async def test_feedback_is_one_per_run_and_user(storage: Storage, key: str) -> None:
    documents = storage.documents
    first = await documents.put_feedback(FeedbackRow("f1", key, "r1", "ann", 1, 1.0, {"a": 1}))
    again = await documents.put_feedback(FeedbackRow("f2", key, "r1", "ann", -1, 2.0, {"b": 2}))
    other = await documents.put_feedback(FeedbackRow("f3", key, "r1", "bob", 1, 3.0))
    later = await documents.put_feedback(FeedbackRow("f4", key, "r2", "ann", 1, 0.5))

    assert first == FeedbackRow("f1", key, "r1", "ann", 1, 1.0, {"a": 1})
    assert again == FeedbackRow("f1", key, "r1", "ann", -1, 1.0, {"b": 2})
    assert await documents.feedback(key) == [later, again, other]
    assert await documents.feedback(key, run_id="r1") == [again, other]
    assert await documents.feedback("unknown") == []


async def test_feedback_is_removed_by_its_author(storage: Storage, key: str) -> None:
    documents = storage.documents
    await documents.put_feedback(FeedbackRow("f1", key, "r1", "ann", 1, 1.0))

    assert not await documents.remove_feedback(key, "r1", "bob")
    assert not await documents.remove_feedback("unknown", "r1", "ann")
    assert not await documents.remove_feedback(key, "r1", "ann", "f9")
    assert await documents.remove_feedback(key, "r1", "ann", "f1")
    assert not await documents.remove_feedback(key, "r1", "ann")


async def test_feedback_goes_with_its_thread(storage: Storage, key: str) -> None:
    await storage.documents.put_feedback(FeedbackRow("f1", key, "r1", "ann", 1, 1.0))
    await storage.threads.delete("ann", "t1")

    assert await storage.documents.feedback(key) == []
    with pytest.raises(ThreadGoneError):
        await storage.documents.put_feedback(FeedbackRow("f2", key, "r1", "ann", 1, 1.0))


async def test_assistants_have_versions(storage: Storage) -> None:
    documents = storage.documents
    old = AssistantRow("ann", "a", 1, 1.0, {"name": "old"})
    new = AssistantRow("ann", "a", 2, 5.0, {"name": "new"})
    between = AssistantRow("ann", "b", 1, 3.0)
    for row in (new, between, old, AssistantRow("bob", "a", 1, 0.0)):
        await documents.put_assistant(row)

    assert await documents.assistants("ann") == [new, between]
    assert await documents.assistant_versions("ann", "a") == [new, old]
    assert await documents.assistant_versions("ann", "x") == []
    with pytest.raises(ConflictError, match="version 2"):
        await documents.put_assistant(AssistantRow("ann", "a", 2, 9.0, {"name": "third"}))
    assert await documents.remove_assistant("ann", "a")
    assert not await documents.remove_assistant("ann", "a")
    assert await documents.assistants("ann") == [between]
    assert len(await documents.assistants("bob")) == 1
