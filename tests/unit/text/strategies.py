"""Unicode text that breaks tokenizers: letters, marks, joiners, scripts without spaces, emoji, controls, spaces."""

from __future__ import annotations

from hypothesis import strategies as st

AWKWARD = [
    "a", "b", "Z", "9", "_", "'", "’", ".", ",", "-", "…", "—", " ", "  ", "\t", "\n", "\u00a0", "\u3000", "\u200b", "e\u0301",
    "é", "ạ", "\u0323", " \u0323", "İ", "ΑΣ", "ﬁ", "\u30ff", "\u212a", "한", "\u1112\u1161\u11ab", "\u1161", "\uff9e", "\uff76",
    "中", "国人", "々", "\U0002f800", "\u8fbb\U000e0100", "の", "ー", "ｶ", "ไทย", "กำ", "ລາວ", "ខ្មែរ", "မြန်မာ", "में", "ක්\u200dර",
    "می\u200cروم", "\u200d", "\u200c", "\u00ad", "\ufeff", "\u202e", "\x00", "\x1f", "\x85", "\u2028", "😀", "👩\u200d👩\u200d👧",
    "🇳🇬", "1️⃣", 'צה"ל', "U.S.", "10,000.5", "\u0600", "\U00016d63\U00016d67", "\ufffd", "[MASK]", "<unk>", "##a", "▁", "Ġ",
]  # fmt: skip

texts = st.one_of(
    st.text(max_size=40),
    st.lists(st.sampled_from(AWKWARD), max_size=25).map("".join),
    st.lists(st.one_of(st.sampled_from(AWKWARD), st.text(max_size=3)), max_size=12).map("".join),
)
