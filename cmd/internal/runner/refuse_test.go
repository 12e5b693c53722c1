package runner

import (
	"encoding/binary"
	"math"
	"os"
	"path"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/cmd/internal/ggml"
	"github.com/ferrumkv/ferrumkv/cmd/internal/tokenizer"
	"github.com/ferrumkv/ferrumkv/internal/testutil/external"
	"github.com/ferrumkv/ferrumkv/kvcache"
)

// What people have and this program does not read is refused in the words that they use for it, with what to do.
func TestRefusalsSayWhatToDo(t *testing.T) {
	config := craftJSON(craftConfig(8), "")
	quantized := func(settings string) map[string][]byte {
		return map[string][]byte{"config.json": craftJSON(craftConfig(8), `,"quantization_config":`+settings), "model.safetensors": craftSafetensors(craftArrays(craftConfig(8), huggingFace), "F32")}
	}
	fp8 := withHeader(`{"model.norm.weight":{"dtype":"F8_E4M3","shape":[8],"data_offsets":[0,8]}}`, make([]byte, 8))
	qweight := withHeader(`{"model.layers.0.mlp.up_proj.qweight":{"dtype":"I32","shape":[2],"data_offsets":[0,8]}}`, make([]byte, 8))
	bytes := withHeader(`{"model.norm.weight":{"dtype":"U8","shape":[8],"data_offsets":[0,8]}}`, make([]byte, 8))
	for name, c := range map[string]struct {
		files      map[string][]byte
		says, toDo string
		inFile     string
	}{
		"shards without index": {map[string][]byte{"config.json": config, "model-00001-of-00002.safetensors": nil},
			"a folder with model-00001-of-00002.safetensors and without model.safetensors.index.json", "download it", "."},
		"GGUF":         {map[string][]byte{"m.Q4_K_M.gguf": nil, "m.Q8_0.gguf": nil}, "a folder of GGUF files", "name one of them, such as m.Q4_K_M.gguf", "."},
		"split GGUF":   {map[string][]byte{"m-00001-of-00003.gguf": nil, "m-00002-of-00003.gguf": nil}, "a folder of GGUF files", "name the first of them, m-00001-of-00003.gguf", "."},
		"a later part": {map[string][]byte{"m-00002-of-00002.gguf": nil}, "a folder with a later part of a GGUF model, without its first", "download all parts into this folder: m-00002-of-00002.gguf is one", "."},
		"LoRA":         {map[string][]byte{"adapter_config.json": nil, "adapter_model.safetensors": nil}, "a LoRA adapter (adapter_model.safetensors)", "merge_and_unload", "."},
		"ONNX":         {map[string][]byte{"config.json": config, "model.onnx": nil}, "a model in ONNX (model.onnx)", "take the safetensors or a GGUF", "."},
		"pickle":       {map[string][]byte{"config.json": config, "pytorch_model-00001-of-00002.bin": nil}, "PyTorch's pickle format (pytorch_model-00001-of-00002.bin)", "save_pretrained", "."},
		"Mistral's":    {map[string][]byte{"consolidated.safetensors": nil, "params.json": nil}, "Mistral's own releases (consolidated.safetensors)", "Hugging Face", "."},
		"Meta's":       {map[string][]byte{"consolidated.00.pth": nil}, "pickle format (consolidated.00.pth)", "Hugging Face", "."},
		"another name": {map[string][]byte{"config.json": config, "weights.safetensors": nil}, "a folder whose weights are in weights.safetensors", "name that file", "."},
		"nothing":      {map[string][]byte{"config.json": config}, "a folder without weights", "model.safetensors.index.json", "."},
		"GPTQ":         {quantized(`{"quant_method":"gptq","bits":4}`), "weights quantized by gptq (configuration quantization_config)", "or a GGUF of it", "config.json"},
		"AWQ":          {quantized(`{"quant_method":"awq","bits":4}`), "weights quantized by awq (configuration quantization_config)", "without -AWQ", "config.json"},
		"bitsandbytes": {quantized(`{"quant_method":"bitsandbytes"}`), "a model with weights quantized by bitsandbytes", "without -bnb-4bit", "config.json"},
		"MXFP4":        {quantized(`{"quant_method":"mxfp4"}`), "weights quantized by mxfp4 (configuration quantization_config)", "it reads F32, F16, BF16, F8_E4M3 with a weight_scale_inv", "config.json"},
		"MLX": {map[string][]byte{"config.json": craftJSON(craftConfig(8), `,"quantization":{"group_size":64,"bits":4},"quantization_config":{"group_size":64,"bits":4}`), "model.safetensors": fp8},
			"weights quantized by MLX (configuration quantization)", "without -4bit", "config.json"},
		"AutoGPTQ":       {map[string][]byte{"config.json": config, "quantize_config.json": []byte(`{"bits":4}`), "model.safetensors": qweight}, "weights quantized by gptq or awq (tensor model.layers.0.mlp.up_proj.qweight)", "without -GPTQ or -AWQ", "model.safetensors"},
		"no method":      {quantized(`7`), "weights quantized by an unknown method", "BF16", "config.json"},
		"FP8":            {map[string][]byte{"config.json": config, "model.safetensors": fp8}, "tensor type F8_E4M3 (1 of 1 tensors)", "F8_E4M3 with a weight_scale_inv", "model.safetensors"},
		"bytes":          {map[string][]byte{"config.json": config, "model.safetensors": bytes}, "tensor type U8 (1 of 1 tensors)", "it reads F32, F16, BF16", "model.safetensors"},
		"another family": {map[string][]byte{"config.json": []byte(`{"model_type":"falcon","layer_types":[]}`), "model.safetensors": fp8}, "model_type falcon", "it runs deepseek_v2, deepseek_v3, gemma2, gemma3_text, gpt_oss, kimi_k2, llama, ", "config.json"},
	} {
		t.Run(name, func(t *testing.T) {
			_, _, err := LoadFS(folder(c.files), ".")
			var u ErrUnsupported
			require.ErrorAs(t, err, &u)
			require.Equal(t, c.inFile, u.File)
			require.Contains(t, u.Feature, c.says)
			require.Contains(t, u.Remedy, c.toDo)
			require.Contains(t, err.Error(), c.says)
			require.Contains(t, err.Error(), " is not supported by this runner; ")
		})
	}
	_, _, err := LoadFS(folder(map[string][]byte{"m.onnx": nil}), "m.onnx")
	require.ErrorContains(t, err, "m.onnx: a model in ONNX (m.onnx) is not supported by this runner; ONNX is a graph for another runtime")
	pointer := []byte("version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 9\n")
	for name, files := range map[string]map[string][]byte{"model.safetensors": {"model.safetensors": pointer, "config.json": config}, "m.gguf": {"m.gguf": pointer}} {
		_, _, err = LoadFS(folder(files), name)
		refused(t, err, name, "contents", "are a pointer of Git LFS in place of the file: run git lfs pull", name)
	}
	for _, version := range []byte{2, 3} {
		_, _, err = LoadFS(folder(map[string][]byte{"m.gguf": {'G', 'G', 'U', 'F', 0, 0, 0, version}}), "m.gguf")
		unsupported(t, err, "m.gguf", "a big-endian GGUF file")
	}
	_, err = tokenizer.Read("tokenizer.model", nil, 5)
	require.ErrorContains(t, err, "tokenizer.model: SentencePiece's own file is not supported by this runner; it reads tokenizer.json")
}

// Types of GGUF are refused by their names, each once, however large the file is: of that only the header is looked at.
func TestTypesAreRefusedByTheHeader(t *testing.T) {
	for number, name := range map[uint32]string{16: "IQ2_XXS", 19: "IQ1_S", 22: "IQ2_S", 29: "IQ1_M", 31: "Q4_0_4_4", 34: "TQ1_0", 38: "IQ4_NL_8_8", 40: "NVFP4", 1000: "number 1000"} {
		c := craftConfig(8)
		arrays := craftArrays(c, ggufWeights)
		data := craftGGUF(craftMeta(c), arrays, "F32")
		for _, i := range []int{1, 3} { // types of two tensors
			at := headerOf(t, data, arrays[i].name)
			binary.LittleEndian.PutUint32(data[at:], number)
		}
		path := filepath.Join(t.TempDir(), "m.gguf")
		require.NoError(t, os.WriteFile(path, data, 0o600))
		require.NoError(t, os.Truncate(path, 2<<30)) // a hole, whose pages would take long
		bounded(t, len(data), func() {
			began := time.Now()
			_, _, err := Load(path, "", nil)
			require.Less(t, time.Since(began), 10*time.Second, "a hang, and no more")
			var u ErrUnsupported
			require.ErrorAs(t, err, &u)
			require.Equal(t, "tensor type "+name+" (2 of 20 tensors)", u.Feature)
			require.Contains(t, u.Remedy, "llama-quantize")
		})
	}
}

// headerOf is where the type of a tensor of rank 1 or 2 is in a GGUF file.
func headerOf(t *testing.T, data []byte, name string) int {
	t.Helper()
	key := text(name)
	for at := range len(data) - len(key) {
		if string(data[at:at+len(key)]) == string(key) {
			at += len(key)
			return at + 4 + 8*int(binary.LittleEndian.Uint32(data[at:]))
		}
	}
	t.Fatal("no tensor ", name)
	return 0
}

// A model in several files is read from the first one, and is the same as in one.
func TestSplitGGUF(t *testing.T) {
	c := craftConfig(8)
	arrays := craftArrays(c, ggufWeights)
	number := func(v int) []byte { return join(u32(ggufU32), u32(uint32(v))) }
	part := func(no, count int, arrays []array, tensors int) []byte {
		meta := map[string][]byte{}
		if no == 0 {
			meta = craftMeta(c)
		}
		meta["split.no"], meta["split.count"], meta["split.tensors.count"] = number(no), number(count), number(tensors)
		return craftGGUF(meta, arrays, "F32")
	}
	whole, _, err := LoadFS(folder(map[string][]byte{"m.gguf": craftGGUF(craftMeta(c), arrays, "F32")}), "m.gguf")
	require.NoError(t, err)
	n := len(arrays)
	files := map[string][]byte{"m-00001-of-00003.gguf": part(0, 3, arrays[:5], n), "m-00002-of-00003.gguf": part(1, 3, arrays[5:6], n), "m-00003-of-00003.gguf": part(2, 3, arrays[6:], n)}
	split, _, err := LoadFS(folder(files), "m-00001-of-00003.gguf")
	require.NoError(t, err)
	require.Equal(t, whole.Embed, split.Embed)
	require.Equal(t, whole.Layers, split.Layers)
	require.NotEqual(t, whole.Digest(), split.Digest(), "which is that of files")

	_, _, err = LoadFS(folder(files), "m-00002-of-00003.gguf")
	require.ErrorContains(t, err, "name the first one, which ends in -00001-of-00003.gguf")
	files["renamed.gguf"] = files["m-00001-of-00003.gguf"]
	_, _, err = LoadFS(folder(files), "renamed.gguf")
	require.ErrorContains(t, err, "name the first one")
	files["m-00003-of-00003.gguf"] = part(2, 3, arrays[5:], n)
	_, _, err = LoadFS(folder(files), "m-00001-of-00003.gguf")
	require.ErrorContains(t, err, "is in two files")
	files["m-00003-of-00003.gguf"] = part(2, 3, arrays[7:], n)
	_, _, err = LoadFS(folder(files), "m-00001-of-00003.gguf")
	require.ErrorContains(t, err, "split.tensors.count: is 20, the 3 files have 19")
	delete(files, "m-00003-of-00003.gguf")
	_, _, err = LoadFS(folder(files), "m-00001-of-00003.gguf")
	require.EqualError(t, err, "m-00003-of-00003.gguf: file: is missing, part 3 of the 3 that the model is in: download it into the folder of the others")
}

// Files of others, of every type that is read, have llama.cpp's tokens and texts.
func TestForeignGGUF(t *testing.T) {
	be := openCPU(t)
	for _, name := range []string{"llama-split/llama-split-00001-of-00002.gguf", "llama-q8_0/llama-q8_0.gguf", "llama-q4_0/llama-q4_0.gguf", "llama-q4_k_m/llama-q4_k_m.gguf", "llama3-q4_k_m/llama3-q4_k_m.gguf", "qwen2-f16/qwen2-f16.gguf", "gemma3-q4_k_m/gemma3-q4_k_m.gguf", "gpt-oss-mxfp4/gpt-oss-mxfp4.gguf"} {
		t.Run(path.Base(name), func(t *testing.T) {
			file := external.Path(t, "gguf", name)
			type text struct {
				Prompt    string
				PromptIDs []uint32 `json:"prompt_ids"`
				IDs       []uint32
			}
			var want struct{ Long, Short text }
			data, err := os.ReadFile(filepath.Join(filepath.Dir(file), "expected.json"))
			readJSON(t, data, err, &want)
			m, tok, err := Load(file, "", nil)
			require.NoError(t, err)
			r := newRunner(t, be, m, Options{Cache: kvcache.Config{Storage: kvcache.Storage{K: backend.F32}, Memory: kvcache.Memory{Capacity: 256}}})
			for _, text := range []text{want.Long, want.Short} {
				require.Equal(t, text.PromptIDs, tok.Encode(text.Prompt))
				var ids []uint32
				_, err := r.Generate(t.Context(), []Prompt{{Tokens: text.PromptIDs}}, len(text.IDs), Sampling{}, func(_ int, token uint32) error {
					ids = append(ids, token)
					return nil
				})
				require.NoError(t, err)
				require.Equal(t, text.IDs, ids)
			}
		})
	}
}

// Every type of blocks is read by its name: of zeros here, which all are.
func TestTypesAreRead(t *testing.T) {
	for number, typ := range ggml.Types {
		if typ.Decode == nil || typ.Block == 1 {
			continue
		}
		c := craftConfig(256)
		var arrays []array
		for _, a := range craftArrays(c, ggufWeights) {
			if len(a.shape) == 2 {
				a.data = make([]float32, len(a.data)/typ.Block*typ.Bytes/4) // bytes, in a file of F32
			}
			arrays = append(arrays, a)
		}
		data := craftGGUF(craftMeta(c), arrays, "F32")
		for _, a := range arrays {
			if len(a.shape) == 2 {
				binary.LittleEndian.PutUint32(data[headerOf(t, data, a.name):], number)
			}
		}
		m, _, err := LoadFS(folder(map[string][]byte{"m.gguf": data}), "m.gguf")
		require.NoError(t, err, typ.Name)
		row := make([]float32, c.Dim)
		m.Embed.Row(row, 3)
		want := make([]float32, typ.Block)
		typ.Decode(want, make([]byte, typ.Bytes))
		require.Equal(t, want[0], row[17], typ.Name)
	}
}

// Of a folder the names and shapes of weights are judged before any is read, too. What it has besides is refused only where a layer would add it to what
// it computes.
func TestFoldersAreSurveyed(t *testing.T) {
	c := craftConfig(8)
	read := func(change func(list []array) []array) error {
		_, _, err := LoadFS(folder(map[string][]byte{"config.json": craftJSON(c, ""), "model.safetensors": craftSafetensors(change(craftArrays(c, huggingFace)), "F32")}), ".")
		return err
	}
	last := "tensor model.layers.1.mlp.down_proj.weight"
	spoiled := func(list []array) []array { // which is found when weights are read, and not before
		list[0].data[3] = float32(math.Inf(1))
		return list
	}
	require.ErrorContains(t, read(spoiled), "element 3 is +Inf")
	var broken ErrFile
	require.ErrorAs(t, read(func(list []array) []array { return spoiled(list)[:len(list)-1] }), &broken)
	require.Equal(t, ErrFile{File: "model.safetensors", Field: last, Why: "is missing"}, broken)
	require.ErrorAs(t, read(func(list []array) []array {
		list[len(list)-1].shape = []int{4, 16}
		return spoiled(list)
	}), &broken)
	require.Equal(t, last, broken.Field)
	for name, refused := range map[string]bool{"model.layers.1.self_attn.q_proj.bias": true, "model.layers.0.self_attn.q_norm.weight": true, "model.layers.0.self_attn.k_norm.weight": true,
		"model.layers.0.self_attn.sinks": true, "model.layers.2.self_attn.q_proj.bias": false, "model.layers.0.self_attn.rotary_emb.inv_freq": false, "vision_tower.layers.0.q.bias": false, "lm_head.weight": false} {
		err := read(func(list []array) []array { return append(list, array{name, []int{1}, []float32{0}}) })
		if !refused {
			require.NoError(t, err, name)
			continue
		}
		unsupported(t, err, "model.safetensors", "tensor "+name+" (one of 1 that its architecture does not have)")
	}
}

// A vocabulary that nothing brings is said before weights are read, with the name of one that is there; weights alone are read without.
func TestVocabularyIsMissing(t *testing.T) {
	c := craftConfig(8)
	list := craftArrays(c, huggingFace)
	list[0].data[3] = float32(math.Inf(1))
	dir := t.TempDir()
	write := func(name string, data []byte) string {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), data, 0o600))
		return filepath.ToSlash(filepath.Join(dir, name))
	}
	write("config.json", craftJSON(c, ""))
	weights := write("model.safetensors", craftSafetensors(list, "F32"))
	_, _, err := Load(dir, "", nil)
	unsupported(t, err, weights, "a model without a vocabulary, whose 5 tokens are not bytes,")
	other := write("tokenizer.model", nil)
	_, _, err = Load(dir, "", nil)
	unsupported(t, err, weights, "a vocabulary in "+other)
	require.ErrorContains(t, err, "tokenizer.json")
	_, err = LoadWeights(dir, nil)
	require.ErrorContains(t, err, "element 3 is +Inf")

	list[0].data[3] = 0
	write("model.safetensors", craftSafetensors(list, "BF16"))
	var all []int
	m, err := LoadWeights(dir, func(done, total int) { all = append(all, total-done) })
	require.NoError(t, err)
	require.True(t, slices.IsSortedFunc(all, func(a, b int) int { return b - a }), "%v", all)
	require.Len(t, all, len(list))
	require.Equal(t, m.Size-2*m.Parameters, all[len(all)-1], "the header is left")
	require.NoError(t, m.Close())
}
