"""Write tests/golden/fixtures/word_vectors.json: what gensim reads in the files of ``gensim_testdata``.

    python tools/make_golden_word_vectors.py [DATA]

Of each file the words' digest, the shape, the SHA-256 of the float32 matrix and its first row.
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
from pathlib import Path

import gensim
import numpy as np

FILES = {  # name: (binary, header)
    "word2vec_pre_kv_c": (False, True),
    "EN.1-10.cbow1_wind5_hs0_neg10_size300_smpl1e-05.txt": (False, True),
    "test_glove.txt": (False, False),
    "euclidean_vectors.bin": (True, True),
    "high_precision.kv.bin": (True, True),
    "high_precision.kv.txt": (False, True),
    "lee_fasttext.vec": (False, True),
    "crime-and-punishment.vec": (False, True),
    "toy-model.vec": (False, True),
}
TARGET = Path(__file__).parents[1] / "tests" / "golden" / "fixtures" / "word_vectors.json"


def main() -> None:
    root = Path(__file__).parents[2] / "shared" / "data"
    data = Path(sys.argv[1] if len(sys.argv) > 1 else os.environ.get("POLYSEMY_DATA", root))
    files = {}
    for name, (binary, header) in FILES.items():
        read = gensim.models.KeyedVectors.load_word2vec_format(
            str(data / "gensim_testdata" / name), binary=binary, no_header=not header
        )
        files[name] = {
            "shape": list(read.vectors.shape),
            "words": hashlib.sha256("\n".join(read.index_to_key).encode()).hexdigest(),
            "matrix": hashlib.sha256(np.ascontiguousarray(read.vectors, "<f4").tobytes()).hexdigest(),
            "first": [float(x) for x in read.vectors[0][:5]],
        }
    golden = {"made_by": f"gensim {gensim.__version__}", "files": files}
    TARGET.write_text(json.dumps(golden, indent=1) + "\n", "utf-8")


if __name__ == "__main__":
    main()
