"""Writes what Hugging Face transformers says about the GGUF models that Olivine is tested with.

For each model and each prompt of `PROMPTS`: the input ids, the greedy continuation, the gap between the two
best logits at every step, and the logits after the prompt (the best and an even sample: all of them would be
a megabyte each). The model runs in float32 on the weights as the GGUF file's quantized blocks decode them.

    python3 -m venv venv && venv/bin/pip install -r scripts/references/requirements.txt
    cargo xtask fetch
    venv/bin/python scripts/references/generate.py [smollm2] [gemma3]

What transformers makes of a GGUF file is not taken on trust. `check_parameters` compares every parameter
with a decoding of the file done here, and `check_config` the settings that the file's metadata decide. Where
its tokenizer departs from the file, `load_tokenizer` puts it right.
"""

import hashlib
import json
import pathlib
import sys

import gguf
import numpy
import tokenizers
import torch
import transformers

REPOSITORY = pathlib.Path(__file__).resolve().parents[2]
MODELS = REPOSITORY / ".cache" / "models"
DATA = REPOSITORY / "crates" / "lm" / "tests" / "data"
NEW_TOKENS = 64
TOP = 64
SAMPLES = 256

LONG = (REPOSITORY / "scripts" / "references" / "long_prompt.txt").read_text(encoding="utf-8").strip()

# (name, whether the chat template wraps it where the model has one, text)
PROMPTS = [
    ("chat_question", True, "What is the capital of France, and what is it known for?"),
    ("english", False, "The old lighthouse keeper climbed the stairs every evening because"),
    ("code", False, 'def binary_search(items, target):\n    """Return the index of target, or -1."""\n    low = 0\n'),
    ("chinese", False, "人工智能的历史可以追溯到二十世纪，当时科学家们"),
    ("arabic_hindi", False, "भारत की राजधानी नई दिल्ली है। عاصمة مصر هي"),
    ("emoji", False, "Weather 🌦️ report: Monday ☀️ 25°C, Tuesday 🌧️ 18°C, 👩‍🚀 says: Wednesday"),
    ("long", False, LONG),
    ("numbers", False, "Squares:\n1. 1\n2. 4\n3. 9\n4. 16\n5. 25\n6."),
]


def gguf_name(parameter):
    """The tensor of the GGUF file that holds a parameter of the transformers model."""
    if parameter in ("model.embed_tokens.weight", "lm_head.weight"):
        return "token_embd.weight"
    if parameter == "model.norm.weight":
        return "output_norm.weight"
    _, _, layer, *rest, _ = parameter.split(".")
    names = {
        "input_layernorm": "attn_norm",
        "post_attention_layernorm": "post_attention_norm",
        "pre_feedforward_layernorm": "ffn_norm",
        "post_feedforward_layernorm": "post_ffw_norm",
        "self_attn.q_proj": "attn_q",
        "self_attn.k_proj": "attn_k",
        "self_attn.v_proj": "attn_v",
        "self_attn.o_proj": "attn_output",
        "self_attn.q_norm": "attn_q_norm",
        "self_attn.k_norm": "attn_k_norm",
        "mlp.gate_proj": "ffn_gate",
        "mlp.up_proj": "ffn_up",
        "mlp.down_proj": "ffn_down",
    }
    return f"blk.{layer}.{names['.'.join(rest)]}.weight"


def metadata(reader, key):
    """A value of the file's metadata, under the architecture's prefix."""
    architecture = reader.fields["general.architecture"].contents()
    field = reader.fields.get(f"{architecture}.{key}")
    return field.contents() if field else None


def halves_from_pairs(weight, heads):
    """Rows of a Llama query or key projection from GGUF's order to transformers'.

    GGUF rotates neighbouring rows of a head, transformers rows half a head apart.
    """
    rows, columns = weight.shape
    return weight.reshape(heads, rows // heads // 2, 2, columns).swapaxes(1, 2).reshape(rows, columns)


def check_parameters(model, reader):
    """Compares every parameter with the file's tensors, decoded and converted here."""
    tensors = {tensor.name: tensor for tensor in reader.tensors}
    used = set()
    for name, parameter in model.named_parameters():
        source = gguf_name(name)
        if source not in tensors and model.config.model_type == "llama":
            # Llama has no norm after attention: its second norm is the one before the feed-forward part.
            source = source.replace("post_attention_norm", "ffn_norm")
        tensor = tensors[source]
        used.add(source)
        weight = gguf.dequantize(tensor.data, tensor.tensor_type).astype(numpy.float32)
        weight = weight.reshape(tuple(int(size) for size in tensor.shape[::-1]))
        if model.config.model_type == "llama" and ("q_proj" in name or "k_proj" in name):
            key = "attention.head_count" if "q_proj" in name else "attention.head_count_kv"
            weight = halves_from_pairs(weight, metadata(reader, key))
        if model.config.model_type == "gemma3_text" and "norm" in name:
            # The file stores the scale, transformers the scale minus one.
            weight = weight - 1
        difference = numpy.abs(weight - parameter.detach().numpy()).max()
        if not difference <= 1e-6:
            sys.exit(f"{name}: differs from {source} by {difference}")
    unused = set(tensors) - used
    if unused:
        sys.exit(f"transformers does not use {sorted(unused)}")


def check_config(config, reader):
    """Compares the settings with the file's metadata and with what the architecture fixes."""
    expected = {
        "hidden_size": metadata(reader, "embedding_length"),
        "num_hidden_layers": metadata(reader, "block_count"),
        "intermediate_size": metadata(reader, "feed_forward_length"),
        "num_attention_heads": metadata(reader, "attention.head_count"),
        "num_key_value_heads": metadata(reader, "attention.head_count_kv"),
        "rms_norm_eps": metadata(reader, "attention.layer_norm_rms_epsilon"),
        "tie_word_embeddings": True,
    }
    theta = metadata(reader, "rope.freq_base")
    if config.model_type == "llama":
        expected["rope_parameters"] = {"rope_theta": theta, "rope_type": "default"}
        expected["hidden_act"] = "silu"
    else:
        expected["head_dim"] = metadata(reader, "attention.key_length")
        expected["sliding_window"] = metadata(reader, "attention.sliding_window")
        # Not in the file: Gemma 3 scales queries by 1/sqrt(256), rotates local layers with base 10,000 and
        # has one global layer after each five local ones.
        expected["query_pre_attn_scalar"] = 256
        expected["rope_parameters"] = {
            "full_attention": {"rope_theta": theta, "rope_type": "default"},
            "sliding_attention": {"rope_theta": 10000.0, "rope_type": "default"},
        }
        layers = range(1, config.num_hidden_layers + 1)
        expected["layer_types"] = ["sliding_attention" if i % 6 else "full_attention" for i in layers]
        expected["hidden_activation"] = "gelu_pytorch_tanh"
        expected["attn_logit_softcapping"] = None
        expected["final_logit_softcapping"] = None
    for key, value in expected.items():
        found = getattr(config, key)
        if found != value:
            sys.exit(f"{key}: transformers has {found!r}, the file {value!r}")


def load_tokenizer(name, reader):
    """The file's tokenizer.

    transformers 5.24 knows GGUF's pre-tokenizer "smollm" as plain byte-level BPE. The model's own tokenizer
    first splits every digit off (and so does llama.cpp), which shows in characters such as a raised two.
    """
    tokenizer = transformers.AutoTokenizer.from_pretrained(MODELS, gguf_file=f"{name}.gguf")
    field = reader.fields.get("tokenizer.ggml.pre")
    if field and field.contents() == "smollm":
        split = tokenizers.pre_tokenizers
        tokenizer.backend_tokenizer.pre_tokenizer = split.Sequence(
            [split.Digits(individual_digits=True), split.ByteLevel(add_prefix_space=False)]
        )
    return tokenizer


def encode(tokenizer, reader, chat, prompt):
    """The text that the model sees and its ids."""
    if chat:
        messages = [{"role": "user", "content": prompt}]
        text = tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)
    else:
        text = prompt
    ids = tokenizer.encode(text, add_special_tokens=False)
    add_bos = reader.fields["tokenizer.ggml.add_bos_token"].contents()
    if add_bos and not chat:
        ids = [reader.fields["tokenizer.ggml.bos_token_id"].contents(), *ids]
    return text, ids


def rounded(values):
    """Seven significant digits: all that a float32 holds, in half the characters."""
    return [float(f"{value:.7g}") for value in values]


@torch.inference_mode()
def continue_greedily(model, ids):
    """The greedy continuation, the gap between the best two logits at each step, the prompt's last logits."""
    continuation, gaps, first = [], [], None
    inputs, cache = torch.tensor([ids]), None
    for _ in range(NEW_TOKENS):
        output = model(input_ids=inputs, cache=cache, use_cache=True, logits_to_keep=1)
        cache = output.past_key_values
        logits = output.logits[0, -1]
        first = logits if first is None else first
        best = torch.topk(logits, 2)
        continuation.append(int(best.indices[0]))
        gaps.append(float(best.values[0] - best.values[1]))
        inputs = best.indices[:1].reshape(1, 1)
    return continuation, gaps, first


def describe(logits):
    best = torch.topk(logits, TOP)
    sample = torch.linspace(0, logits.numel() - 1, SAMPLES, dtype=torch.float64).round().long()
    return {
        "min": float(logits.min()),
        "max": float(logits.max()),
        "top_ids": best.indices.tolist(),
        "top_values": rounded(best.values.tolist()),
        "sample_ids": sample.tolist(),
        "sample_values": rounded(logits[sample].tolist()),
    }


def write_references(name):
    path = MODELS / f"{name}.gguf"
    reader = gguf.GGUFReader(path)
    model = transformers.AutoModelForCausalLM.from_pretrained(
        MODELS, gguf_file=path.name, dtype=torch.float32, attn_implementation="eager"
    )
    model.eval()
    check_config(model.config, reader)
    check_parameters(model, reader)
    tokenizer = load_tokenizer(name, reader)
    eos = reader.fields["tokenizer.ggml.eos_token_id"].contents()
    cases = []
    for case, wants_chat, prompt in PROMPTS:
        chat = wants_chat and tokenizer.chat_template is not None
        text, ids = encode(tokenizer, reader, chat, prompt)
        continuation, gaps, logits = continue_greedily(model, ids)
        print(f"{name} {case}: {len(ids)} tokens, smallest gap {min(gaps):.4f}")
        print(f"    {tokenizer.decode(continuation)!r}")
        cases.append(
            {
                "name": case,
                "chat": chat,
                "prompt": prompt,
                "text": text,
                "prompt_ids": ids,
                "continuation": continuation,
                "continuation_text": tokenizer.decode(continuation, skip_special_tokens=True),
                "eos_at": continuation.index(eos) if eos in continuation else None,
                "gaps": [round(gap, 5) for gap in gaps],
                "logits": describe(logits),
            }
        )
    references = {
        "source": "scripts/references/generate.py",
        "transformers": transformers.__version__,
        "torch": torch.__version__,
        "sha256": hashlib.sha256(path.read_bytes()).hexdigest(),
        "vocab_size": model.config.vocab_size,
        "eos_id": eos,
        "cases": cases,
    }
    DATA.mkdir(parents=True, exist_ok=True)
    target = DATA / f"{name}.json"
    with open(target, "w", encoding="utf-8") as file:
        json.dump(references, file, ensure_ascii=False, separators=(",", ":"))
        file.write("\n")
    print(f"{target.relative_to(REPOSITORY)}: {target.stat().st_size:,} bytes")


if __name__ == "__main__":
    torch.manual_seed(0)
    for model_name in sys.argv[1:] or ["smollm2", "gemma3"]:
        write_references(model_name)
