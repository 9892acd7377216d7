"""Trains the tests' small vocabulary with the `tokenizers` library on this repository's text: make.py FOLDER"""

import json
import pathlib
import sys

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

ROOT = pathlib.Path(__file__).resolve().parents[3]
QWEN = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"

tokenizer = Tokenizer(models.BPE(continuing_subword_prefix="", end_of_word_suffix=""))
tokenizer.normalizer = normalizers.NFC()
byte_level = dict(add_prefix_space=False, trim_offsets=False, use_regex=False)
tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
    [pre_tokenizers.Split(Regex(QWEN), "isolated"), pre_tokenizers.ByteLevel(**byte_level)]
)
tokenizer.post_processor = processors.ByteLevel(**byte_level)
tokenizer.decoder = decoders.ByteLevel(**byte_level)
files = sorted(
    str(f)
    for pattern in ("src/**/*.cpp", "src/**/*.h", "docs/*.md", "tests/**/*.py")
    for f in ROOT.glob(pattern)
    if "unicode_tables" not in f.name
)
trainer = trainers.BpeTrainer(
    vocab_size=1536, min_frequency=2, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False
)
tokenizer.train(files, trainer)
tokenizer.add_special_tokens(
    [AddedToken(t, normalized=False, special=True) for t in ("<|endoftext|>", "<|im_start|>", "<|im_end|>")]
)
tokenizer.add_tokens([AddedToken(t, normalized=False, special=False) for t in ("<think>", "</think>")])
folder = pathlib.Path(sys.argv[1])
tokenizer.save(str(folder / "tokenizer.json"), pretty=False)
config = {
    "chat_template": None,
    "eos_token": "<|im_end|>",
    "pad_token": "<|endoftext|>",
    "tokenizer_class": "Qwen2Tokenizer",
}
(folder / "tokenizer_config.json").write_text(json.dumps(config, indent=2) + "\n")
