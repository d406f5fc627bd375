"""Chit-chat in many languages: greetings, thanks, assent, and steps without an object."""

from __future__ import annotations

import re
import unicodedata

LONGEST = 80
"""Characters; a longer text is never taken for chit-chat."""

_PHRASES = """
hi|hello|hey|hiya|yo|there|all|again|everyone|good morning|good afternoon|good evening
|good day|good night|morning|thanks|thank you|thank u|thx|ty|many thanks|cheers|so much
|very much|a lot|much appreciated|ok|okay|k|kk|sure|yes|yep|yeah|yup|no|nope|fine|right
|alright|great|perfect|cool|nice|awesome|excellent|lovely|wow|good|good job|well done
|nice work|great work|got it|i see|understood|makes sense|sounds good|looks good|lgtm
|never mind|nevermind|no problem|you re welcome|youre welcome|please|sorry|bye|goodbye
|see you|see ya|later|how are you|how are you doing|whats up|what s up|lol|haha|test|testing
|ping|go on|continue|keep going|go ahead|carry on|proceed|next|next one|more|once more
|try again|retry|repeat|stop|do it|run it|run it again|do it again|and now|done|is it done
|are you there|hallo|guten morgen|guten tag|guten abend|moin|servus|gruezi|danke|danke schon
|danke schoen|danke dir|vielen dank|besten dank|bitte|ja|nein|gut|sehr gut|prima|super
|klasse|toll|perfekt|alles klar|verstanden|weiter|mach weiter|nochmal|noch mal|noch einmal
|stopp|tschuss|tschuess|auf wiedersehen|passt|genau|stimmt|in ordnung|bonjour|salut|bonsoir
|coucou|merci|merci beaucoup|merci bien|oui|non|d accord|daccord|tres bien|parfait|genial
|s il vous plait|s il te plait|au revoir|a bientot|vas y|encore|encore une fois|ca marche
|bien|hola|buenos dias|buenas tardes|buenas noches|gracias|muchas gracias|si|vale|de acuerdo
|perfecto|muy bien|por favor|adios|hasta luego|sigue|continua|otra vez|bueno|claro|ola
|bom dia|boa tarde|boa noite|obrigado|obrigada|muito obrigado|muito obrigada|sim|nao|ta bom
|certo|otimo|tchau|ciao|buongiorno|buonasera|grazie|grazie mille|va bene|perfetto|ottimo
|prego|arrivederci|avanti|ancora|hoi|goedemorgen|dank je|dank u|bedankt|dankjewel|ja hoor
|doei|hej|tack|tack sa mycket|tak|takk|kiitos|czesc|dzien dobry|dziekuje|dzieki|nie|dobrze
|merhaba|selam|tesekkurler|tesekkur ederim|sagol|evet|hayir|tamam|привет|здравствуйте
|добрый день|спасибо|большое спасибо|спасибо большое|да|нет|хорошо|понятно|ясно|отлично|ок
|пока|продолжай|дальше|еще раз|пожалуйста|привіт|дякую|так|ні|добре|مرحبا|السلام عليكم|شكرا
|شكرا جزيلا|نعم|لا|حسنا|تمام|שלום|תודה|תודה רבה|כן|לא|בסדר|नमस्ते|धन्यवाद|शुक्रिया|हाँ|नहीं
|ठीक है|你好|您好|大家好|早上好|早安|晚上好|晚安|谢谢|謝謝|谢谢你|謝謝你|谢谢您|多谢|多謝
|感谢|非常感谢|好|好的|好吧|行|可以|是|是的|对|對|不|不是|没问题|沒問題|明白|明白了|知道了
|收到|了解|继续|繼續|下一步|再来一次|再試一次|再试一次|不错|很好|太好了|太棒了|棒|辛苦了
|再见|再見|拜拜|嗯|哦|请|吧|啊|呢|了|こんにちは|おはよう|おはようございます|こんばんは
|ありがとう|ありがとうございます|ありがとうございました|どうも|はい|いいえ|わかりました
|了解です|続けて|続けてください|お願いします|もう一度|次|いいですね|すごい|さようなら|안녕
|안녕하세요|감사합니다|고마워|고맙습니다|네|예|아니요|좋아|좋아요|알겠습니다|계속|계속해
|다시|잘했어
"""
"""Greetings, thanks, assent and one-off steps without an object, as `_plain` writes them."""


def _plain(text: str) -> str:
    """Letters and digits in lower case without accents, one space between words."""
    folded = unicodedata.normalize("NFKD", text.casefold())
    kept = (" " if not (s.isalnum() or unicodedata.combining(s)) else s for s in folded)
    bare = "".join(s for s in kept if not ("\u0300" <= s <= "\u036f"))
    return " ".join(unicodedata.normalize("NFC", bare).split())


def _pattern() -> re.Pattern[str]:
    phrases = {_plain(phrase) for phrase in _PHRASES.replace("\n", "").split("|")} - {""}
    ordered = sorted(phrases, key=len, reverse=True)
    one = "|".join(re.escape(phrase) for phrase in ordered if phrase.isascii() or " " in phrase)
    joined = "|".join(re.escape(p) for p in ordered if not p.isascii() and " " not in p)
    return re.compile(rf"(?:(?:(?:{one})(?![^\W_])|(?:{joined})) ?)*+")


_CHITCHAT = _pattern()


def is_chitchat(text: str) -> bool:
    """Whether a text is nothing but greetings, thanks, assent or "go on", in many languages."""
    if len(text) > LONGEST:
        return False
    return _CHITCHAT.fullmatch(_plain(text)) is not None
