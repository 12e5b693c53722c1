package main

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ferrumkv/ferrumkv/internal/testutil/external"
	modeldata "github.com/ferrumkv/ferrumkv/testdata/model"
	"github.com/stretchr/testify/require"
)

// storyTemplate is a chat template for the embedded model, which was not made for conversations.
const storyTemplate = `{% for m in messages %}{% if m.role == "assistant" %}{{ m.content|trim }}
{% else %}{{ m.role }}: {{ m.content }}
{% endif %}{% endfor %}`

// told is what storyTemplate makes of a conversation: what is said, and the answers to all but the last.
func told(system string, said, answers []string) string {
	out := "system: " + system + "\n"
	for i, text := range said {
		if out += "user: " + text + "\n"; i < len(answers) {
			out += strings.TrimSpace(answers[i]) + "\n"
		}
	}
	return out
}

// file writes a file of a test.
func file(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

// says has the program read a text from standard input.
func says(t *testing.T, text string) {
	t.Helper()
	in, err := os.Open(file(t, "input", text))
	require.NoError(t, err)
	before := os.Stdin
	os.Stdin = in
	t.Cleanup(func() {
		os.Stdin = before
		require.NoError(t, in.Close())
	})
}

// chats runs chat with a story's template on the embedded model, and returns its answers.
func chats(t *testing.T, said string, args ...string) []map[string]any {
	t.Helper()
	says(t, said)
	return jsonLines(t, succeeds(t, append([]string{"chat", "--json", "--template", file(t, "t.jinja", storyTemplate)}, args...)...).stdout)
}

var said = []string{"Once upon a time", "The big dog", "Lily was sad"}

// Each answer is that of the whole conversation as one prompt, and computes only what is new.
func TestChat(t *testing.T) {
	for _, args := range []string{"", "--layout contiguous --kv-dtype f32", "--layout paged --block-size 8 --kv-dtype f32", "--backend counted --temperature 0.8 --top-k 20"} {
		t.Run(args, func(t *testing.T) {
			answers := chats(t, strings.Join(said, "\n")+"\n", append([]string{"--system", "A story", "--max-tokens", "50"}, strings.Fields(args)...)...)
			require.Len(t, answers, 3)
			var texts []string
			cached := 0.0 // the earlier prompt and answer, but for its last token
			for i, a := range answers {
				require.Equal(t, said[i], a["user"])
				require.Equal(t, cached, a["reused_tokens"])
				require.Equal(t, a["prompt_tokens"].(float64)-cached, a["computed_tokens"])
				cached = a["prompt_tokens"].(float64) + a["tokens"].(float64) - 1
				if !strings.Contains(args, "temperature") {
					whole := jsonLines(t, succeeds(t, append([]string{"generate", "--json", "--max-tokens", "50", "--prompt", told("A story", said[:i+1], texts)}, strings.Fields(args)...)...).stdout)
					require.Equal(t, whole[0]["text"], a["text"])
					require.Equal(t, whole[0]["prompt_tokens"], a["prompt_tokens"])
				}
				texts = append(texts, a["text"].(string))
			}
		})
	}
	says(t, "\n  \nOnce upon\\\na time\n")
	r := succeeds(t, "chat", "--template", file(t, "t.jinja", storyTemplate), "--max-tokens", "30")
	whole := succeeds(t, "generate", "--max-tokens", "30", "--prompt", "user: Once upon\na time\n").stdout
	require.Equal(t, strings.TrimPrefix(whole, "user: Once upon\na time\n"), r.stdout)
	require.Regexp(t, `^\[computed 24 of 24 tokens; 0 in the cache; \d+\.\d tokens/s; at --max-tokens 30\]\n$`, r.stderr)
}

// A last line that was to go on is answered, and not lost.
func TestChatLastLine(t *testing.T) {
	for _, input := range []string{"Once upon\\", "Once upon\\\n"} {
		answers := chats(t, input, "--max-tokens", "2")
		require.Len(t, answers, 1)
		require.Equal(t, "Once upon", answers[0]["user"])
	}
}

// A signal that came while the model was loaded ends the conversation before it begins.
func TestChatInterruptedBefore(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errTerminated)
	cmd := newChat()
	cmd.SetContext(ctx)
	cmd.SetIn(strings.NewReader(""))
	require.ErrorIs(t, new(dialogue).talk(cmd), errTerminated)
}

// A template that takes something out of earlier answers is followed, and what is before that stays in the cache.
func TestChatDropsThoughts(t *testing.T) {
	template := file(t, "t.jinja", strings.ReplaceAll(storyTemplate, "m.content|trim", "m.content.split(' ')[-1]"))
	for _, layout := range []string{"paged", "contiguous"} {
		says(t, strings.Join(said, "\n"))
		answers := jsonLines(t, succeeds(t, "chat", "--json", "--layout", layout, "--system", "A story", "--max-tokens", "50", "--template", template).stdout)
		require.Len(t, answers, 3)
		var kept []string
		for i, a := range answers {
			prompt := told("A story", said[:i+1], kept)
			whole := jsonLines(t, succeeds(t, "generate", "--json", "--max-tokens", "50", "--prompt", prompt).stdout)
			require.Equal(t, whole[0]["text"], a["text"])
			if i > 0 {
				require.GreaterOrEqual(t, a["reused_tokens"].(float64), answers[i-1]["prompt_tokens"])
				require.Less(t, a["reused_tokens"].(float64), answers[i-1]["prompt_tokens"].(float64)+10)
			}
			words := strings.Split(a["text"].(string), " ")
			kept = append(kept, words[len(words)-1])
		}
	}
}

// A conversation in two runs is that of one, also sampled.
func TestChatSaveAndResume(t *testing.T) {
	snap := filepath.Join(t.TempDir(), "talk.snap")
	for _, sampling := range []string{"", "--temperature 0.9 --top-k 30 --repeat-penalty 1.1 --seed 3"} {
		args := append([]string{"--system", "A story", "--max-tokens", "40"}, strings.Fields(sampling)...)
		whole := chats(t, strings.Join(said, "\n"), args...)
		first := chats(t, said[0]+"\n"+said[1], append(args, "--save", snap)...)
		require.Equal(t, whole[1]["text"], first[1]["text"])
		second := chats(t, said[2], "--resume", snap, "--max-tokens", "40", "--layout", "contiguous", "--save", snap)
		for _, field := range []string{"text", "prompt_tokens", "computed_tokens", "reused_tokens"} {
			require.Equal(t, whole[2][field], second[0][field], field)
		}
	}
	require.Contains(t, succeeds(t, "inspect", snap).stdout, chatNoteName)
	template := []string{"--template", file(t, "t.jinja", storyTemplate)}
	for _, c := range []struct{ args, want string }{
		{"chat --resume " + snap + " --system x", "--system: the file of --resume has it"},
		{"chat --resume " + snap + " --seed 5", "--seed: the file of --resume has it"},
		{"chat --compress", "--compress: is for --save"},
		{"chat --resume " + snap + "x", "no such file"},
		{"chat --save " + snap + "/x", "there is no directory"},
	} {
		fails(t, append(strings.Fields(c.args), template...), c.want)
	}
	fails(t, []string{"generate", "--resume", snap}, "it was written by chat --save; resume it with 'ferrumkv chat'")
	succeeds(t, "generate", "--max-tokens", "5", "--save", snap)
	fails(t, append([]string{"chat", "--resume", snap}, template...), "it was written by generate --save; resume it with 'ferrumkv generate'")

	chats(t, "", "--system", "A story", "--save", snap)
	require.NotEmpty(t, chats(t, "hello", "--resume", snap, "--max-tokens", "3"), "of a conversation without a cache")
}

// What is on a disk from an earlier run is not computed again.
func TestChatTiers(t *testing.T) {
	dir := t.TempDir()
	first := chats(t, said[0], "--disk", dir, "--max-tokens", "40")
	says(t, said[0])
	second := succeeds(t, "chat", "--template", file(t, "t.jinja", storyTemplate), "--disk", dir, "--max-tokens", "40")
	require.Equal(t, first[0]["text"].(string)+"\n", second.stdout)
	require.Regexp(t, `\[computed 8 of 24 tokens; 16 in the cache, 16 of them from disk; `, second.stderr)
}

func TestChatStops(t *testing.T) {
	whole := chats(t, said[0], "--max-tokens", "60")[0]["text"].(string)
	stop := whole[17:29]
	answers := chats(t, said[0]+"\n"+said[1], "--max-tokens", "60", "--stop", stop)
	require.Equal(t, whole[:strings.Index(whole, stop)], answers[0]["text"])
	require.Equal(t, "stop", answers[0]["stop"])
	says(t, said[0])
	r := succeeds(t, "chat", "--template", file(t, "t.jinja", storyTemplate), "--stop", stop)
	require.Equal(t, whole[:strings.Index(whole, stop)]+"\n", r.stdout)
	require.Contains(t, r.stderr, "; at --stop]\n")
}

// A model's own template is used.
func TestChatFolder(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"config.json", "model.safetensors"} {
		data, err := modeldata.Files.ReadFile(name)
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), data, 0o600))
	}
	fails(t, []string{"chat", "--model", dir}, "--model "+dir+" brings no chat template")
	require.NoError(t, os.WriteFile(filepath.Join(dir, "chat_template.jinja"), []byte(storyTemplate), 0o600))
	want := chats(t, said[0], "--max-tokens", "10")[0]["text"].(string)
	says(t, said[0])
	require.Equal(t, want+"\n", succeeds(t, "chat", "--model", dir, "--max-tokens", "10").stdout)
}

// What the model chose stays as it is, however else its text could be encoded.
func TestChatGGUF(t *testing.T) {
	for _, name := range []string{"qwen2-f16", "llama-q8_0", "gpt-oss-mxfp4"} {
		model := external.Path(t, "gguf", name, name+".gguf")
		says(t, strings.Join(said, "\n"))
		answers := jsonLines(t, succeeds(t, "chat", "--json", "--model", model, "--template", filepath.Join("..", "internal", "chat", "testdata", "chatml.jinja"), "--max-tokens", "25").stdout)
		for i, a := range answers[1:] {
			require.Equal(t, answers[i]["prompt_tokens"].(float64)+answers[i]["tokens"].(float64)-1, a["reused_tokens"], name)
		}
	}
}

func TestChatRefusals(t *testing.T) {
	fails(t, []string{"chat"}, "the embedded model brings no chat template", "--template FILE", "ferrumkv generate")
	template := func(source string) []string { return []string{"chat", "--template", file(t, "t.jinja", source)} }
	fails(t, template("{% include '/etc/hostname' %}"), "the chat template: ", `unknown statement "include"`, "name another one with --template FILE")
	fails(t, append(template(`{% if messages[0].role == 'system' %}{{ raise_exception('No system role') }}{% endif %}x`), "--system", "y"), "--system: the chat template: No system role; say it in the first message instead")
	fails(t, append(template("{% for m in messages if m.role == 'user' %}{{ m.content }}{% endfor %}"), "--system", "y"), "--system: the chat template: leaves system prompts out; say it in the first message instead")
	fails(t, template("{% if false %}x{% endif %}"), "the chat template: makes no text of a message; name another one with --template FILE")
	fails(t, append(template("x"), "--max-tokens", "-2"), "--max-tokens -2: accepts a number of tokens")
	fails(t, append(template("x"), "--stop", ""), "--stop: is empty")
	fails(t, append(template("x"), "--context", "-1"), "--context -1")
	fails(t, []string{"chat", "--template", "none"}, "--template: open none")
	fails(t, template(""), "t.jinja: is empty")
	says(t, strings.Repeat("word ", 300))
	r := fails(t, template(storyTemplate), "more than the model's context of 1024 tokens; begin a new one\n")
	require.Empty(t, r.stdout)
	says(t, strings.Repeat("word ", 30))
	fails(t, append(template(storyTemplate), "--context", "64"), "more than the 64 tokens of --context; begin a new one")
	full := chats(t, said[0], "--context", "64")
	require.Equal(t, "capacity", full[0]["stop"])
	require.Equal(t, 65., full[0]["prompt_tokens"].(float64)+full[0]["tokens"].(float64), "the last token is not in the cache")
	says(t, said[0])
	require.Contains(t, succeeds(t, append(template(storyTemplate), "--context", "64")...).stderr, "; at the 64 tokens of --context]\n")
}
