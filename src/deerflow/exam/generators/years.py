"""History: years between two events."""

from __future__ import annotations

from random import Random

from deerflow.exam.generators.drafts import Draft, amounts

EVENTS = (
    (-551, "the birth of Confucius", "孔子诞生"),
    (-490, "the Battle of Marathon", "马拉松战役"),
    (-323, "the death of Alexander the Great", "亚历山大大帝去世"),
    (-221, "the unification of China by Qin", "秦统一六国"),
    (-202, "the founding of the Western Han dynasty", "西汉建立"),
    (105, "Cai Lun's improvement of papermaking", "蔡伦改进造纸术"),
    (476, "the fall of the Western Roman Empire", "西罗马帝国灭亡"),
    (618, "the founding of the Tang dynasty", "唐朝建立"),
    (960, "the founding of the Northern Song dynasty", "北宋建立"),
    (1215, "the sealing of Magna Carta", "英国《大宪章》签署"),
    (1368, "the founding of the Ming dynasty", "明朝建立"),
    (1405, "the start of Zheng He's first voyage", "郑和首次下西洋"),
    (1492, "the first voyage of Columbus", "哥伦布首次远航美洲"),
    (1689, "the Treaty of Nerchinsk", "中俄签订《尼布楚条约》"),
    (1776, "the American Declaration of Independence", "美国发表《独立宣言》"),
    (1789, "the outbreak of the French Revolution", "法国大革命爆发"),
    (1840, "the outbreak of the First Opium War", "鸦片战争爆发"),
    (1911, "the outbreak of the Xinhai Revolution", "辛亥革命爆发"),
    (1919, "the May Fourth Movement", "五四运动爆发"),
    (1949, "the founding of the People's Republic of China", "中华人民共和国成立"),
)
"""Year (negative: BC), and the event in English and Chinese."""


def year_difference(rng: Random, chinese: bool) -> Draft:
    """Years between two events; where the eras differ there is no year 0."""
    return rng.choice((_apart, _across))(rng, chinese)


def _dated(event: tuple[int, str, str], chinese: bool) -> str:
    year = event[0]
    if chinese:
        return f"{event[2]}（{'公元前' if year < 0 else '公元'} {abs(year)} 年）"
    return f"{event[1]} ({f'{-year} BC' if year < 0 else f'AD {year}'})"


def _between(rng: Random, events: list[tuple[int, str, str]], chinese: bool) -> Draft:
    first, second = events
    across = first[0] < 0 < second[0]
    value = second[0] - first[0] - (1 if across else 0)
    text = (
        f"从{_dated(first, True)}到{_dated(second, True)}相隔多少年？（公元纪年没有零年）"
        if chinese
        else f"How many years lie between {_dated(first, False)} and {_dated(second, False)}? "
        "(There is no year zero.)"
    )
    mistakes = [value + 1, abs(abs(second[0]) - abs(first[0])), value + 100, value - 1, value - 100]
    key, wrong = amounts(value, mistakes)
    return Draft("history", "medium" if across else "easy", text, key, wrong, (key,))


def _apart(rng: Random, chinese: bool) -> Draft:
    before = rng.random() < 0.3
    era = [each for each in EVENTS if (each[0] < 0) == before]
    return _between(rng, sorted(rng.sample(era, 2)), chinese)


def _across(rng: Random, chinese: bool) -> Draft:
    before = [each for each in EVENTS if each[0] < 0]
    after = [each for each in EVENTS if each[0] > 0]
    return _between(rng, [rng.choice(before), rng.choice(after)], chinese)
