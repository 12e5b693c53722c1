package tokenizer

import (
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Content that no tokenizer has takes little memory, and is refused: very many parts, added tokens without texts, other settings.
func TestJSONTakesLittleMemory(t *testing.T) {
	const size = 1 << 20
	empty := strings.TrimSuffix(strings.Repeat("{},", size/3), ",")
	texts := strings.TrimSuffix(strings.Repeat(`"a b",`, size/6), ",")
	lists := strings.TrimSuffix(strings.Repeat(`["a","b"],`, size/10), ",")
	for name, text := range map[string]string{
		"normalizer":   `{"normalizer":{"type":"Sequence","normalizers":[` + empty + `]}}`,
		"post":         `{"post_processor":{"type":"TemplateProcessing","single":[` + empty + `]}}`,
		"decoder":      `{"decoder":{"type":"Sequence","decoders":[` + empty + `]}}`,
		"added_tokens": `{"decoder":{"type":"ByteLevel"},"model":{"type":"BPE","vocab":{},"merges":[]},"added_tokens":[` + empty + `]}`,
		"merges":       `{"decoder":{"type":"ByteLevel"},"model":{"type":"BPE","vocab":{},"merges":[` + texts + `]}}`,
		"merge lists":  `{"decoder":{"type":"ByteLevel"},"model":{"type":"BPE","vocab":{},"merges":[` + lists + `]}}`,
		"padding":      `{"padding":[` + empty + `]}`,
		"other":        `{"other":[` + empty + `]}`,
	} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, err := Read("tokenizer.json", []byte(text), 16)
		runtime.ReadMemStats(&after)
		require.Error(t, err, name)
		require.Less(t, float64(after.TotalAlloc-before.TotalAlloc)/size, 4.0, name)
	}
}
