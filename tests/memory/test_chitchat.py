"""What is nothing but greetings, thanks and assent."""

import pytest

from deerflow.memory.deermem.chitchat import LONGEST, is_chitchat


@pytest.mark.parametrize(
    "text",
    [
        "Thanks!", "ok, thank you so much 🙏", "Hi there!", "👍", "...", "continue", "Yes, go on.",
        "Danke schön!", "Guten Morgen", "très bien, merci", "¡Muchas gracias!", "Não, obrigado",
        "grazie mille", "Да, спасибо!", "شكرا", "תודה רבה", "नमस्ते", "teşekkürler", "dziękuję",
        "好的,谢谢", "谢谢你!", "你好", "繼續", "ありがとうございます", "了解です。", "감사합니다",
        "",
    ],
)  # fmt: skip
def test_chitchat(text: str) -> None:
    assert is_chitchat(text)


@pytest.mark.parametrize(
    "text",
    [
        "No, I'm vegetarian", "I live in Berlin", "好的,我住在北京", "okra", "no peanuts",
        "Danke, ich heiße Ida", "merci, je préfère le thé", "Thanks, call me Bo", "C++", "hello.py",
        "はい、東京に住んでいます", "네, 서울에 살아요", "да, я живу в Омске", "42",
    ],
)  # fmt: skip
def test_words_that_say_something(text: str) -> None:
    assert not is_chitchat(text)


def test_a_long_text_is_never_chitchat() -> None:
    assert not is_chitchat("thanks " * LONGEST)
    assert not is_chitchat("了" * (LONGEST + 1))
