"""Freeze what transformers' BERT computes, as files that the golden tests replay without it.

    python tools/make_golden_bert.py

Weights are drawn wide (0.3 instead of 0.02), so that no part of the computation is too small to be seen; the second
sequence is padded and the third has two segments.  Run again only when the original is shown to have been wrong.
"""

from __future__ import annotations

import json
from pathlib import Path

import torch
import transformers
from safetensors.torch import save_file

FOLDER = Path(__file__).parents[1] / "tests" / "golden" / "fixtures" / "bert"


def main() -> None:
    torch.manual_seed(20190524)
    config = transformers.BertConfig(
        vocab_size=50, hidden_size=24, num_hidden_layers=3, num_attention_heads=4, intermediate_size=48,
        max_position_embeddings=12, attn_implementation="eager",
    )  # fmt: skip
    model = transformers.BertForPreTraining(config).eval()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            parameter.normal_(1.0 if "LayerNorm.weight" in name else 0.0, 0.3)
    model.save_pretrained(FOLDER)
    ids, segments = torch.randint(1, 50, (3, 11)), torch.zeros(3, 11, dtype=torch.long)
    mask = torch.ones(3, 11, dtype=torch.bool)
    mask[1, 7:], segments[2, 5:] = False, 1
    with torch.no_grad():
        out = model(ids, mask.long(), segments, output_hidden_states=True, output_attentions=True)
    tensors = {"ids": ids, "segments": segments, "mask": mask, "masked_lm": out.prediction_logits}
    tensors["next_sentence"] = out.seq_relationship_logits
    tensors |= {f"states.{i}": state for i, state in enumerate(out.hidden_states)}
    tensors |= {f"attention.{i}": weights for i, weights in enumerate(out.attentions)}
    save_file({name: tensor.contiguous() for name, tensor in tensors.items()}, FOLDER / "expected.safetensors")
    versions = {
        "transformers": transformers.__version__,
        "torch": torch.__version__,
        "made_by": "tools/make_golden_bert.py",
    }
    (FOLDER / "versions.json").write_text(json.dumps(versions, indent=1) + "\n")


if __name__ == "__main__":
    main()
