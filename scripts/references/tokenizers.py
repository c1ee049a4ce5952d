#!/usr/bin/env python3
"""Writes crates/tokenize/tests/data: the ids that other implementations give to a set of texts, and
chats rendered by Hugging Face's template environment.

    pip install gguf transformers sentencepiece protobuf llama-cpp-python
    cargo xtask fetch
    python scripts/references/tokenizers.py

Byte-level ids (smollm2) are those of Hugging Face's tokenizers library, put together as in the model's
tokenizer.json; SentencePiece ids (gemma3) those of
the sentencepiece library with the vocabulary of the file; llama.cpp is asked too, and where it
disagrees the text is reported.
"""

import json
from pathlib import Path

import sentencepiece
from gguf import GGUFReader
from llama_cpp import Llama
from sentencepiece import sentencepiece_model_pb2 as pb
from tokenizers import AddedToken, Tokenizer, models, pre_tokenizers
from transformers.utils.chat_template_utils import render_jinja_template

ROOT = Path(__file__).parents[2]
MODELS = ROOT / ".cache/models"
OUT = ROOT / "crates/tokenize/tests/data"

TEXTS = [
    "", " ", "  ", "   a", "a   b    c", "\n", "\n\n\n", " \n \n", "\t\tx\t", "\r\n\r\n", " trailing  ",
    "Hello, world!", "Hello,world", "The quick brown fox jumps over the lazy dog.",
    "I'm sure they've said we'll see; he'd don't.", "IT'S THEY'VE I'LL", "can’t won’t it’s",
    "0", "1234567890", "3.14159 1e-10 1,000,000 0x1F 2024-11-30", "١٢٣ ②③ Ⅷ ½",
    "def f(x):\n    return x ** 2  # square\n\n\nclass A:\n\tpass\n",
    "fn main() {\n    println!(\"{:?}\", vec![1, 2, 3]);\n}\n",
    "#include <stdio.h>\nint main(void) { return a->b[i++] != 0 && ~c | 1 << 3; }",
    "{\"key\": [true, null, -1.5e+3], \"a b\": \"c\\\\n\"}",
    "<html><body><p class=\"x\">hi</p></body></html>", "https://example.com/a?b=c&d=%20#frag",
    "SELECT * FROM t WHERE a >= 'b' -- c", "$E = mc^2$ \\frac{a}{b} \\alpha",
    "你好，世界！今天天气很好。", "日本語のテキストとカタカナ、漢字。", "안녕하세요 세계",
    "مرحبا بالعالم، كيف حالك؟", "שלום עולם", "Привет, мир! Как дела?", "Γειά σου Κόσμε",
    "नमस्ते दुनिया", "สวัสดีชาวโลก", "Xin chào thế giới", "Çok güzel, İstanbul ışıl ışıl",
    "naïve café coöperate résumé", "e\u0301 a\u0308 n\u0303 (combining)", "ﬁ ﬂ ﷺ Å Å",
    "😀", "👨‍👩‍👧‍👦 family", "🏳️‍🌈🇫🇷👍🏽", "a😀b🎉c", "☃️❄️ ★☆", "𝔘𝔫𝔦𝔠𝔬𝔡𝔢 𐍈 𓀀", "\u200b\u200d\ufeffx",
    "\x00\x01\x7f\x85\xa0", "nbsp\xa0here\u2003em\u3000ideographic", "▁ literal ▁▁lower block", "Ġ Ċ ĠĠ",
    "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n", "<|endoftext|>", "<|im_start", "<|im_end|><|im_end|>",
    "<start_of_turn>user\nHi<end_of_turn>\n<start_of_turn>model\n", "<bos>x<eos>", "<pad><unk><mask>",
    "<0x0A> <0xff>", "a<bos> b", "<table><tr><td>1</td></tr></table>", "[multimodal] <unused1>",
    "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", "....!!!!????----____====", "=" * 70, " " * 40 + "x" + " " * 33,
    "\n" * 37 + "y", "ab" * 50, "Supercalifragilisticexpialidocious antidisestablishmentarianism",
    "UPPER lower MiXeD camelCase snake_case kebab-case", "a,b;c:d.e!f?g", "(((nested [brackets] {here})))",
    "“quotes” ‘single’ «guillemets» —dash– …", "100% of 5€ £3 ¥2 ₿1 50°C", "x\ty\nz\r\nw\x0bv\x0cu",
    "Zażółć gęślą jaźń", "ŠĐČĆŽ šđčćž", "ქართული", "አማርኛ", "தமிழ்", "𠜎𠜱𠝹", "ꙮ ⁂ ‽ №",
]


class Vocabulary:
    def __init__(self, path):
        fields = GGUFReader(path).fields
        get = lambda key: fields[f"tokenizer.ggml.{key}"].contents() if f"tokenizer.ggml.{key}" in fields else None
        self.tokens, self.types, self.scores = get("tokens"), get("token_type"), get("scores")
        self.merges = get("merges")
        self.unknown, self.bos, self.eos = get("unknown_token_id"), get("bos_token_id"), get("eos_token_id")


def byte_level_tokenizer(v):
    vocab = {token: i for i, token in enumerate(v.tokens)}
    tokenizer = Tokenizer(models.BPE(vocab, [tuple(m.split(" ")) for m in v.merges]))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)])
    special = [AddedToken(t, normalized=False, special=True) for t, k in zip(v.tokens, v.types) if k == 3]
    tokenizer.add_special_tokens(special)
    return tokenizer


def sentencepiece_processor(v):
    """The sentencepiece library on the vocabulary of a GGUF file."""
    model = pb.ModelProto()
    for token, score, kind in zip(v.tokens, v.scores, v.types):
        piece = model.pieces.add()
        piece.score = score
        piece.type = kind
        piece.piece = token.replace(" ", "▁") if kind == pb.ModelProto.SentencePiece.USER_DEFINED else token
    # Exactly one unknown piece must exist; converters mark it as a control token.
    model.pieces[v.unknown].type = pb.ModelProto.SentencePiece.UNKNOWN
    model.trainer_spec.model_type = pb.TrainerSpec.BPE
    model.trainer_spec.byte_fallback = True
    model.trainer_spec.unk_id, model.trainer_spec.bos_id, model.trainer_spec.eos_id = v.unknown, v.bos, v.eos
    model.trainer_spec.unk_piece = v.tokens[v.unknown]
    model.trainer_spec.bos_piece, model.trainer_spec.eos_piece = v.tokens[v.bos], v.tokens[v.eos]
    model.trainer_spec.pad_id, model.trainer_spec.pad_piece = 0, v.tokens[0]
    model.normalizer_spec.name = "identity"
    model.normalizer_spec.add_dummy_prefix = False
    model.normalizer_spec.remove_extra_whitespaces = False
    return sentencepiece.SentencePieceProcessor(model_proto=model.SerializeToString())


def encode_around_control(v, processor, text):
    """Sentencepiece does not parse control tokens in text; they are cut out here, the longest first."""
    control = sorted((t for t, k in zip(v.tokens, v.types) if k in (2, 3)), key=len, reverse=True)
    hit = min(((text.find(t), -len(t), t) for t in control if t in text), default=None)
    if hit is None:
        return processor.encode(text)
    at, _, token = hit
    return processor.encode(text[:at]) + [v.tokens.index(token)] + encode_around_control(v, processor, text[at + len(token):])


def tokens(name, encode):
    path = MODELS / f"{name}.gguf"
    llama = Llama(str(path), vocab_only=True, verbose=False)
    rows = []
    for text in TEXTS:
        ids = encode(text)
        other = llama.tokenize(text.encode(), add_bos=False, special=True)
        if ids != other:
            print(f"{name}: llama.cpp disagrees on {text!r}: {ids} {other}")
        rows.append({"text": text, "ids": ids})
    lines = ",\n".join(json.dumps(row, ensure_ascii=False) for row in rows)
    (OUT / f"{name}.json").write_text(f"[\n{lines}\n]\n")


TEMPLATES = {
    "chatml": "{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\\n' + message['content'] + '<|im_end|>' + '\\n' }}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}",
    "blocks": "{{ bos_token }}\n{%- for m in messages %}\n    {%- if m.role == 'system' %}\n        {{- '[SYS]' ~ m.content | trim ~ '[/SYS]' }}\n    {%- else %}\n    {{ m.role | upper }}: {{ m.content }}\n    {% endif %}\n{% endfor %}\n{% if add_generation_prompt %}\nmodel:\n{% endif %}\n",
    "tools": "{%- if tools %}Tools:\n{% for t in tools %}{{ t | tojson }}\n{{ t | tojson(indent=2) }}\n{{ t.function.name }}\n{% endfor %}{% endif %}{% for m in messages %}{{ m.role }}{% if m.tool_calls %}{% for c in m.tool_calls %}<call>{{ c.function.arguments | tojson }}|{{ c.function.arguments }}</call>{% endfor %}{% elif m.content is string %}>{{ m.content }}{% endif %}\n{% endfor %}",
    "parts": "{% for m in messages %}{% for p in m['content'] %}{% if p['type'] == 'image' %}<image>{% elif p['type'] == 'text' %}{{ p['text'] }}{% endif %}{% endfor %};{% endfor %}",
    "methods": "{% for m in messages %}{% set c = m.content.strip().split('</think>')[-1].lstrip('\\n') %}{{ c }}|{{ m.content.startswith('a') }}|{{ m.content.replace('a', 'b').upper().title() }}|{{ m.get('name', 'nobody') }}|{{ m.items() | list | length }}|{{ loop.index0 }}/{{ loop.last }}\n{% endfor %}",
    "namespaces": "{% set ns = namespace(last=-1, found=false) %}{% for m in messages[::-1] %}{% set i = (messages | length - 1) - loop.index0 %}{% if not ns.found and m.role == 'user' %}{% set ns.last = i %}{% set ns.found = true %}{% endif %}{% endfor %}{{ ns.last }} {{ ns.found }} {{ none }} {{ 1.5 }} {{ 2.0 }} {{ [1, 'a', true] }} {{ messages[0].role in ['user', 'system'] }}",
    "macros": "{% macro turn(role, text='') -%}<{{ role }}>{{ text }}</{{ role }}>{%- endmacro %}{% for m in messages if m.role != 'tool' %}{{ turn(m.role, m.content) }}{% if loop.index == 2 %}{% break %}{% endif %}{% endfor %}{{ x | default('none given') }}{{ messages | map(attribute='role') | join(',') }}{{ messages | selectattr('role', 'equalto', 'user') | list | length }}",
    "generation": "{% for m in messages %}{% if m.role == 'assistant' %}{% generation %}{{ m.content }}{{ eos_token }}{% endgeneration %}\n{% else %}{{ m.content }}{%- endif %}\n{% endfor %}",
}
CONVERSATIONS = {
    "plain": [
        {"role": "system", "content": "  Be brief. <b>&\"quoted\"</b> "},
        {"role": "user", "content": "a</think>\n\nHello, it's naïve 日本 😀"},
        {"role": "assistant", "content": "Hi\n"},
        {"role": "user", "content": "Bye"},
    ],
    "calls": [
        {"role": "user", "content": "Weather?"},
        {"role": "assistant", "content": "", "tool_calls": [{"type": "function", "function": {
            "name": "weather", "arguments": {"city": "Zürich", "days": 3, "exact": 1e-07, "big": 1e22, "half": 0.5,
                                             "ok": True, "none": None, "quote": "it's \"x\"\n", "list": [1, [], {}]}}}]},
        {"role": "tool", "content": "{\"t\": 3}", "name": "weather"},
    ],
    "parts": [
        {"role": "user", "content": [{"type": "text", "text": "Look: "}, {"type": "image"}, {"type": "text", "text": "ok"}]},
    ],
}
TOOLS = [{"type": "function", "function": {"name": "weather", "description": "The <weather> & 'more'", "parameters": {
    "type": "object", "properties": {"city": {"type": "string", "enum": ["Zürich", "東京"]}}, "required": ["city"]}}}]


def templates():
    rows = []
    for name, template in TEMPLATES.items():
        for title, messages in CONVERSATIONS.items():
            if (title == "parts") != (name == "parts"):
                continue
            tools = TOOLS if name == "tools" else None
            for prompt in (False, True):
                texts, _ = render_jinja_template(
                    [messages], chat_template=template, tools=tools, add_generation_prompt=prompt,
                    bos_token="<s>", eos_token="</s>")
                rows.append({"name": f"{name}/{title}", "template": template, "messages": messages, "tools": tools,
                             "add_generation_prompt": prompt, "expected": texts[0]})
    lines = ",\n".join(json.dumps(row, ensure_ascii=False) for row in rows)
    (OUT / "templates.json").write_text(f"[\n{lines}\n]\n")


def main():
    smollm2 = byte_level_tokenizer(Vocabulary(MODELS / "smollm2.gguf"))
    tokens("smollm2", lambda text: smollm2.encode(text, add_special_tokens=False).ids)
    vocabulary = Vocabulary(MODELS / "gemma3.gguf")
    processor = sentencepiece_processor(vocabulary)
    tokens("gemma3", lambda text: encode_around_control(vocabulary, processor, text))
    templates()


if __name__ == "__main__":
    main()
