"""What is known of providers by name: address, key variable, host."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import urlsplit


@dataclass(frozen=True, slots=True)
class Provider:
    """A provider.

    Attributes:
        base_url: of its chat-completions endpoint, or "" when it is reached by a LangChain class.
        key: environment variable of its key, "" when it needs none.
        package: what brings its LangChain class.
    """

    base_url: str = ""
    key: str = ""
    package: str = ""


PROVIDERS: dict[str, Provider] = {
    "openai": Provider("https://api.openai.com/v1", "OPENAI_API_KEY"),
    "deepseek": Provider("https://api.deepseek.com/v1", "DEEPSEEK_API_KEY"),
    "minimax": Provider("https://api.minimax.io/v1", "MINIMAX_API_KEY"),
    "moonshot": Provider("https://api.moonshot.ai/v1", "MOONSHOT_API_KEY"),
    "openrouter": Provider("https://openrouter.ai/api/v1", "OPENROUTER_API_KEY"),
    "gemini": Provider("https://generativelanguage.googleapis.com/v1beta/openai", "GEMINI_API_KEY"),
    "ollama": Provider("http://localhost:11434/v1"),
    "vllm": Provider("http://localhost:8000/v1"),
    "llamacpp": Provider("http://localhost:8080/v1"),
    "anthropic": Provider("", "ANTHROPIC_API_KEY", "langchain-anthropic"),
    "google_genai": Provider("", "GOOGLE_API_KEY", "langchain-google-genai"),
    "mistralai": Provider("", "MISTRAL_API_KEY", "langchain-mistralai"),
    "groq": Provider("", "GROQ_API_KEY", "langchain-groq"),
    "xai": Provider("", "XAI_API_KEY", "langchain-xai"),
}
"""Addresses and variables as the providers document them."""

_HOSTS = {
    "api.openai.com": "openai",
    "api.deepseek.com": "deepseek",
    "api.minimax.io": "minimax",
    "api.minimaxi.com": "minimax",
    "api.moonshot.ai": "moonshot",
    "api.moonshot.cn": "moonshot",
    "openrouter.ai": "openrouter",
    "generativelanguage.googleapis.com": "gemini",
    "api.mistral.ai": "mistral",
    "api.anthropic.com": "anthropic",
}


def provider_of_url(url: str) -> str:
    """Identity of an endpoint: a provider's name, else its host and port."""
    parts = urlsplit(url)
    host = parts.hostname or ""
    if host.endswith(".openai.azure.com"):
        return "azure"
    return _HOSTS.get(host) or (f"{host}:{parts.port}" if parts.port else host)


def address_problem(url: str, *, web: bool = True) -> str:
    """What is wrong with an endpoint's address, "" when nothing; the address is not repeated.

    Args:
        url: as configured.
        web: it must be one of http or https (clients of other classes may take bare hosts).
    """
    try:
        parts = urlsplit(url)
        named = bool(parts.hostname) and parts.port != 0
    except ValueError as error:
        return f"is no address ({error})"
    if web and (parts.scheme not in ("http", "https") or not named or " " in parts.netloc):
        return "must begin with http:// or https:// and name a host"
    return ""


def package_for(module: str) -> str:
    """What to install when `module` cannot be imported."""
    return module.partition(".")[0].replace("_", "-")


def proxy_for(url: str, environ: Mapping[str, str]) -> str | None:
    """The HTTP proxy that the environment names for an address; loopback never goes through one."""
    parts = urlsplit(url)
    host = parts.hostname or ""
    lower = {name.lower(): value for name, value in environ.items()}
    proxy = lower.get(f"{parts.scheme}_proxy") or lower.get("all_proxy")
    if not proxy or host in ("localhost", "127.0.0.1", "::1"):
        return None
    return None if _direct(host, lower.get("no_proxy", "")) else proxy


def _direct(host: str, no_proxy: str) -> bool:
    names = [name.strip().lower().lstrip("*.") for name in no_proxy.split(",")]
    if "*" in no_proxy.split(","):
        return True
    return any(name and (host == name or host.endswith(f".{name}")) for name in names)
