// Package modeldata is the demo model: a byte-level Llama of 2.4 million
// parameters that writes short stories, trained by this project. MODEL_CARD.md
// says how, and what to expect of it.
package modeldata

import "embed"

// Files holds the model's files at their root. They are embedded so that an
// installed binary, which has no testdata, can run the model.
//
//go:embed model.safetensors config.json expected.json stories.txt
var Files embed.FS
