package runner

import (
	"bytes"
	"fmt"
	"math"
	"runtime"
	"strings"
	"testing"

	"github.com/ferrumkv/ferrumkv/cmd/internal/modelfile"
	"github.com/stretchr/testify/require"

	"github.com/ferrumkv/ferrumkv/internal/testutil/race"
)

// taken is the bytes that a call allocates per byte of its input. Nothing else runs meanwhile.
func taken(input int, call func()) float64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	call()
	runtime.ReadMemStats(&after)
	return float64(after.TotalAlloc-before.TotalAlloc) / float64(input)
}

// ggufArrayFile is a GGUF file whose metadata is one array, of n elements of a kind.
func ggufArrayFile(kind uint32, n uint64, elements []byte) []byte {
	b := append([]byte("GGUF"), 3, 0, 0, 0)
	b = le.AppendUint64(b, 0)
	b = le.AppendUint64(b, 1)
	b = append(le.AppendUint64(b, 1), 'a')
	b = le.AppendUint32(b, ggufArray)
	b = le.AppendUint32(b, kind)
	return append(le.AppendUint64(b, n), elements...)
}

// An unused array of any kind takes next to no memory, whatever its length; one that is used takes
// no more than 8 bytes a number, or its texts.
func TestGGUFArraysTakeLittleMemory(t *testing.T) {
	const size = 4 << 20
	for kind, number := range ggufNumbers {
		n := size / number.bytes
		data := ggufArrayFile(kind, uint64(n), make([]byte, size))
		require.Less(t, taken(len(data), func() {
			meta, _ := parseGGUF(file{"m.gguf", data})
			require.Equal(t, n, get[ggufList](meta, "a").n)
		}), 0.01, "type %d", kind)
		meta, _ := parseGGUF(file{"m.gguf", data})
		require.Less(t, taken(8*n, func() { require.Len(t, ggufFloats(meta, "a", n), n) }), 1.01, "type %d", kind)
	}
	const n = size / 9
	texts := bytes.Repeat(append(le.AppendUint64(nil, 1), 'x'), n)
	data := ggufArrayFile(ggufString, n, texts)
	var meta *settings
	require.Less(t, taken(len(data), func() { meta, _ = parseGGUF(file{"m.gguf", data}) }), 0.01)
	require.Less(t, taken(len(data), func() { require.Len(t, ggufStrings(meta, "a", n), n) }), 3.0) // each has a header
	for _, hostile := range []uint64{1 << 20, 1 << 40, math.MaxUint64} {
		for _, kind := range []uint32{0, 7, ggufString, 12, 99, ggufArray} {
			data := ggufArrayFile(kind, hostile, make([]byte, 1<<10))
			var err error
			require.Less(t, taken(1<<10, func() {
				defer caught(&err)
				parseGGUF(file{"m.gguf", data})
				err = nil
			}), 8.0, "%d of type %d", hostile, kind)
			require.ErrorIs(t, err, modelfile.ErrFile{}, "%d of type %d", hostile, kind)
		}
	}
}

// The numbers of metadata entries and of tensors are bounded.
func TestGGUFEntriesAreBounded(t *testing.T) {
	for _, counts := range [][2]uint64{{maxGGUFTensors + 1, 0}, {0, maxGGUFKeys + 1}, {math.MaxUint64, math.MaxUint64}} {
		b := append([]byte("GGUF"), 3, 0, 0, 0)
		b = le.AppendUint64(le.AppendUint64(b, counts[0]), counts[1])
		var err error
		func() {
			defer caught(&err)
			parseGGUF(file{"m.gguf", b})
		}()
		require.ErrorContains(t, err, "are accepted")
	}
}

// Headers, indexes and configurations in JSON take at most a few times their bytes, or are refused if lists are longer
// than any model has.
func TestJSONTakesLittleMemory(t *testing.T) {
	const size = 1 << 20
	list := strings.TrimSuffix(strings.Repeat("0,", size/2), ",")
	texts := strings.TrimSuffix(strings.Repeat(`"weight":"model-00001.safetensors",`, size/35), ",")
	header := func(text string) []byte {
		return append(le.AppendUint64(nil, uint64(len(text))), text...)
	}
	for name, c := range map[string]struct {
		data  []byte
		read  func(f file)
		times float64
	}{
		"shape":    {header(`{"a":{"dtype":"F32","shape":[` + list + `],"data_offsets":[0,0]}}`), func(f file) { parseSafetensors(f) }, 8},
		"offsets":  {header(`{"a":{"dtype":"F32","shape":[],"data_offsets":[` + list + `]}}`), func(f file) { parseSafetensors(f) }, 8},
		"metadata": {header(`{"__metadata__":{` + texts + `}}`), func(f file) { parseSafetensors(f) }, 8},
		"index":    {[]byte(`{"weight_map":{` + texts + `}}`), func(f file) { require.NoError(t, weightMap(f.data, func(string) {})) }, 8},
		"others":   {[]byte(`{"others":[` + list + `],"weight_map":{}}`), func(f file) { require.NoError(t, weightMap(f.data, func(string) {})) }, 8},
		"config":   {[]byte(`{"a":[` + list + `]}`), func(f file) { parseConfig(f, nil) }, 1},
	} {
		var err error
		if race.Enabled { // the decoder allocates more then
			c.times *= 2
		}
		require.Less(t, taken(len(c.data), func() {
			defer caught(&err)
			c.read(file{name, c.data})
		}), c.times, name)
		if err != nil {
			require.ErrorContains(t, err, "at most", fmt.Sprint(name))
		}
	}
}
