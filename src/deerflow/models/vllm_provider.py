"""`VllmChatModel`: the name that existing configurations use for a model behind vLLM."""

from __future__ import annotations

from deerflow.models.openai import OpenAIChatModel

VLLM_URL = "http://localhost:8000/v1"
"""Where vLLM listens by default."""


class VllmChatModel(OpenAIChatModel):
    """Chat completions of a vLLM server, thinking (`reasoning` or `reasoning_content`) included."""

    base_url: str = VLLM_URL
