"""Writes tiny random Llama and Gemma 3 checkpoints, and the logits that transformers gives for them.

Each folder under crates/lm/tests/data is a checkpoint as transformers saves it: config.json, weights in one
file or in shards, tokenizer.json, tokenizer_config.json and a chat template. Beside them lie

    config_v4.json         the same settings as transformers 4 spelt them (rope_theta, rope_scaling,
                           sliding_window_pattern), which most published checkpoints have
    expected.json          a prompt's ids, the next id, and what the tokenizer and the template give
    expected.safetensors   prompt_logits [40, vocabulary], step_logits [1, vocabulary] (next id, with cache)

    venv/bin/python scripts/references/tiny_models.py

The weights are wide enough that a wrong rotation, mask, scale, norm or bias shows in the second digit of
the logits. Norm weights and biases, which transformers starts at one and zero, are random too.
"""

import json
import pathlib
import shutil
import tempfile

import safetensors.torch
import tokenizers
import torch
import transformers
from tokenizers import decoders, models, normalizers, pre_tokenizers, trainers

REPOSITORY = pathlib.Path(__file__).resolve().parents[2]
DATA = REPOSITORY / "crates" / "lm" / "tests" / "data"
CORPUS = (REPOSITORY / "scripts" / "references" / "long_prompt.txt").read_text(encoding="utf-8").splitlines()
PROMPT_LENGTH = 40
SEED = 20
TEXTS = ["The river has three names.", "  two spaces,\ttab and 1234", "naïve 水 🙂", "<|user|>Hi<|end|>"]
SPECIAL = ["<|pad|>", "<|begin|>", "<|end|>", "<|system|>", "<|user|>", "<|assistant|>"]
CHAT_TEMPLATE = (
    "{{ bos_token }}{% for message in messages %}"
    "{{ '<|' + message['role'] + '|>' + message['content'] | trim + '<|end|>' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|assistant|>' }}{% endif %}"
)


def byte_level_tokenizer():
    """Byte-level BPE, as Llama 3 has it."""
    tokenizer = tokenizers.Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=320,
        special_tokens=SPECIAL,
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    tokenizer.train_from_iterator(CORPUS, trainer)
    return tokenizer


def byte_fallback_tokenizer():
    """BPE over characters with a mark for the space and bytes for the unknown, as Gemma has it."""
    tokenizer = tokenizers.Tokenizer(models.BPE(byte_fallback=True, unk_token="<unk>", fuse_unk=True))
    tokenizer.normalizer = normalizers.Replace(" ", "▁")
    tokenizer.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()])
    bytes_as_tokens = [f"<0x{byte:02X}>" for byte in range(256)]
    trainer = trainers.BpeTrainer(
        vocab_size=384, special_tokens=[*SPECIAL, "<unk>", *bytes_as_tokens], show_progress=False
    )
    tokenizer.train_from_iterator([line.replace(" ", "▁") for line in CORPUS], trainer)
    # The trainer knows special tokens only; the bytes have to be ordinary ones.
    described = json.loads(tokenizer.to_str())
    described["added_tokens"] = [t for t in described["added_tokens"] if t["content"] not in bytes_as_tokens]
    return tokenizers.Tokenizer.from_str(json.dumps(described))


def llama(**settings):
    return transformers.LlamaConfig(
        vocab_size=320,
        hidden_size=48,
        intermediate_size=80,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=256,
        rms_norm_eps=1e-5,
        pad_token_id=0,
        bos_token_id=1,
        eos_token_id=2,
        **settings,
    )


LLAMA3_SCALING = {
    "rope_type": "llama3",
    "rope_theta": 500.0,
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 64,
}

# Three local layers around a global one; the window is shorter than the prompt; the head's width, the scale
# of the queries and the two rotations all differ from what other settings would suggest.
GEMMA3 = transformers.Gemma3TextConfig(
    vocab_size=384,
    hidden_size=48,
    intermediate_size=80,
    num_hidden_layers=4,
    num_attention_heads=4,
    num_key_value_heads=2,
    head_dim=16,
    max_position_embeddings=256,
    rms_norm_eps=1e-4,
    sliding_window=12,
    layer_types=["sliding_attention", "sliding_attention", "full_attention", "sliding_attention"],
    query_pre_attn_scalar=20,
    rope_parameters={
        "sliding_attention": {"rope_type": "default", "rope_theta": 100.0},
        "full_attention": {"rope_type": "linear", "rope_theta": 2000.0, "factor": 4.0},
    },
    pad_token_id=0,
    bos_token_id=1,
    eos_token_id=2,
)

# name: (config, tokenizer, bytes in a shard or None)
CHECKPOINTS = {
    "tiny_llama": (llama(tie_word_embeddings=True), byte_level_tokenizer, None),
    "tiny_llama_scaled": (
        llama(head_dim=16, attention_bias=True, tie_word_embeddings=False, rope_parameters=LLAMA3_SCALING),
        byte_level_tokenizer,
        "150KB",
    ),
    "tiny_gemma3": (GEMMA3, byte_fallback_tokenizer, None),
}


def randomize(model):
    generator = torch.Generator().manual_seed(SEED)
    for name, parameter in model.named_parameters():
        noise = torch.randn(parameter.shape, generator=generator)
        if parameter.dim() == 1:
            # Around the value that transformers starts from: one for Llama's norms, else zero.
            center = 1.0 if "norm" in name and model.config.model_type == "llama" else 0.0
            parameter.data = center + 0.3 * noise
        elif "embed_tokens" in name:
            parameter.data = 0.5 * noise
        else:
            parameter.data = noise * 1.5 / parameter.shape[1] ** 0.5


def older_spelling(config):
    """The settings under the names of transformers 4."""
    old = {key: value for key, value in config.items() if key not in ("rope_parameters", "dtype")}
    old["torch_dtype"] = config["dtype"]
    rotation = dict(config["rope_parameters"])
    if "full_attention" in rotation:
        old["rope_local_base_freq"] = rotation["sliding_attention"]["rope_theta"]
        rotation = dict(rotation["full_attention"])
        # A period instead of a list: every so many layers a global one.
        old["sliding_window_pattern"] = old.pop("layer_types").index("full_attention") + 1
        del old["_sliding_window_pattern"]
    old["rope_theta"] = rotation.pop("rope_theta")
    old["rope_scaling"] = rotation if rotation["rope_type"] != "default" else None
    return old


@torch.inference_mode()
def logits_of(model, ids, next_id=None):
    """Logits of every position of the prompt, and of the next id fed with the cache."""
    first = model(input_ids=torch.tensor([ids]), use_cache=True)
    if next_id is None:
        next_id = int(first.logits[0, -1].argmax())
    step = model(input_ids=torch.tensor([[next_id]]), cache=first.past_key_values, use_cache=True)
    return first.logits[0], next_id, step.logits[0]


def load(folder, dtype=torch.float32):
    load_model = transformers.AutoModelForCausalLM.from_pretrained
    return load_model(folder, dtype=dtype, attn_implementation="eager").eval()


def check_older_spelling(folder, ids, expected):
    """transformers has to read both spellings as the same model."""
    with tempfile.TemporaryDirectory() as copy:
        shutil.copytree(folder, copy, dirs_exist_ok=True)
        shutil.move(f"{copy}/config_v4.json", f"{copy}/config.json")
        logits, _, _ = logits_of(load(copy), ids)
    if not torch.equal(logits, expected):
        raise SystemExit(f"{folder.name}: config_v4.json gives other logits")


def write_json(path, value, indent=2):
    path.write_text(json.dumps(value, ensure_ascii=False, indent=indent) + "\n", encoding="utf-8")


def write_tokenizer(folder, tokenizer):
    wrapped = transformers.PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        bos_token="<|begin|>",
        eos_token="<|end|>",
        pad_token="<|pad|>",
        clean_up_tokenization_spaces=False,
        chat_template=CHAT_TEMPLATE,
    )
    wrapped.save_pretrained(folder)
    template = folder / "chat_template.jinja"
    if folder.name != "tiny_gemma3":
        # Templates are published in either place: here inside tokenizer_config.json, for Gemma 3 beside it.
        settings = json.loads((folder / "tokenizer_config.json").read_text(encoding="utf-8"))
        settings["chat_template"] = template.read_text(encoding="utf-8")
        write_json(folder / "tokenizer_config.json", settings)
        template.unlink()
    return transformers.AutoTokenizer.from_pretrained(folder)


def write_checkpoint(name, config, tokenizer, shard):
    folder = DATA / name
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    torch.manual_seed(SEED)
    model = transformers.AutoModelForCausalLM.from_config(config, dtype=torch.float32)
    randomize(model)
    model.save_pretrained(folder, max_shard_size=shard or "5GB")
    (folder / "generation_config.json").unlink(missing_ok=True)
    settings = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    write_json(folder / "config_v4.json", older_spelling(settings))

    wrapped = write_tokenizer(folder, tokenizer())
    ids = torch.randint(6, config.vocab_size, (PROMPT_LENGTH,), generator=torch.Generator().manual_seed(SEED))
    ids = [config.bos_token_id, *ids.tolist()[1:]]
    prompt, next_id, step = logits_of(load(folder), ids)
    check_older_spelling(folder, ids, prompt)
    exact, _, exact_step = logits_of(load(folder, torch.float64), ids, next_id)
    error = max((exact - prompt).abs().max(), (exact_step - step).abs().max())
    safetensors.torch.save_file({"prompt_logits": prompt, "step_logits": step}, folder / "expected.safetensors")

    messages = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": " Hello, river! "}]
    rendered = wrapped.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)
    encode = lambda text: wrapped.encode(text, add_special_tokens=False)
    expected = {
        "source": "scripts/references/tiny_models.py",
        "transformers": transformers.__version__,
        "prompt_ids": ids,
        "next_id": next_id,
        "texts": [{"text": text, "ids": encode(text), "decoded": wrapped.decode(encode(text))} for text in TEXTS],
        "chat": {"messages": messages, "text": rendered, "ids": encode(rendered)},
    }
    write_json(folder / "expected.json", expected, indent=None)
    size = sum(file.stat().st_size for file in folder.iterdir())
    print(
        f"{name}: {sorted(file.name for file in folder.iterdir())}, {size:,} bytes; logits from "
        f"{prompt.min():.2f} to {prompt.max():.2f}, float32 within {error:.1e} of float64"
    )


if __name__ == "__main__":
    for checkpoint, (settings, make_tokenizer, shard_size) in CHECKPOINTS.items():
        write_checkpoint(checkpoint, settings, make_tokenizer, shard_size)
