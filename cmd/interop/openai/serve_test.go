package openai

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
	"github.com/stretchr/testify/require"
)

// program is the path of ferrumkv, built once.
var program string

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "openai")
	if err != nil {
		panic(err)
	}
	program = filepath.Join(dir, "ferrumkv")
	build := exec.Command("go", "build", "-o", program, "./cmd/ferrumkv")
	build.Dir, build.Env = filepath.Join("..", "..", ".."), append(os.Environ(), "GOWORK=") // the checkout's
	build.Stderr = os.Stderr
	if err := build.Run(); err != nil {
		panic(err)
	}
	code := m.Run()
	_ = os.RemoveAll(dir)
	os.Exit(code)
}

// template is a conversation of plain lines, for a model that brings none.
const template = `{% for m in messages %}{{ m.role }}: {{ m.content }}
{% endfor %}{% if add_generation_prompt %}assistant: {% endif %}`

const key = "a key of this test"

// serve starts the program on the embedded model, and ends it with SIGTERM, after which it has to exit with 0.
func serve(t *testing.T, args ...string) openai.Client {
	t.Helper()
	file := filepath.Join(t.TempDir(), "template.jinja")
	require.NoError(t, os.WriteFile(file, []byte(template), 0o600))
	cmd := exec.Command(program, append([]string{"serve", "--listen", "127.0.0.1:0", "--template", file}, args...)...)
	cmd.Env = append(os.Environ(), "FERRUM_API_KEY="+key)
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	var log strings.Builder
	cmd.Stderr = &log
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		require.NoError(t, cmd.Process.Signal(syscall.SIGTERM))
		require.NoError(t, cmd.Wait(), log.String())
	})
	line, err := bufio.NewReader(out).ReadString('\n')
	require.NoError(t, err, log.String())
	go io.Copy(io.Discard, out)
	at := regexp.MustCompile(`http://\S+`).FindString(line)
	require.NotEmpty(t, at, line)
	return openai.NewClient(option.WithBaseURL(at+"/v1"), option.WithAPIKey(key), option.WithMaxRetries(0))
}

// model is the one that the server has.
func model(t *testing.T, c openai.Client) string {
	t.Helper()
	list, err := c.Models.List(t.Context())
	require.NoError(t, err)
	require.Len(t, list.Data, 1)
	one, err := c.Models.Get(t.Context(), list.Data[0].ID)
	if err == nil { // the endpoint of one model is not part of the server
		require.Equal(t, list.Data[0].ID, one.ID)
	}
	return list.Data[0].ID
}

func completion(model, prompt string, n int64) openai.CompletionNewParams {
	return openai.CompletionNewParams{
		Model: openai.CompletionNewParamsModel(model), Prompt: openai.CompletionNewParamsPromptUnion{OfString: openai.String(prompt)},
		MaxTokens: openai.Int(n), Temperature: openai.Float(0),
	}
}

// Completions are the same whole and streamed, and the second finds the first one's prompt.
func TestCompletions(t *testing.T) {
	c := serve(t)
	name := model(t, c)
	whole, err := c.Completions.New(t.Context(), completion(name, "Once upon a time", 40))
	require.NoError(t, err)
	require.Len(t, whole.Choices, 1)
	require.NotEmpty(t, whole.Choices[0].Text)
	require.EqualValues(t, "length", whole.Choices[0].FinishReason)
	require.EqualValues(t, 40, whole.Usage.CompletionTokens)
	require.Zero(t, whole.Usage.PromptTokensDetails.CachedTokens)

	params := completion(name, "Once upon a time", 40)
	params.StreamOptions = openai.ChatCompletionStreamOptionsParam{IncludeUsage: openai.Bool(true)}
	stream := c.Completions.NewStreaming(t.Context(), params)
	text, chunks := "", 0
	var usage openai.CompletionUsage
	for stream.Next() {
		chunk := stream.Current()
		for _, choice := range chunk.Choices {
			text += choice.Text
			chunks++
		}
		if chunk.Usage.TotalTokens > 0 {
			usage = chunk.Usage
		}
	}
	require.NoError(t, stream.Err())
	require.Equal(t, whole.Choices[0].Text, text)
	require.Greater(t, chunks, 10)
	require.Equal(t, whole.Usage.TotalTokens, usage.TotalTokens)
	require.Equal(t, usage.PromptTokens-1, usage.PromptTokensDetails.CachedTokens)

	lists := completion(name, "", 5)
	lists.Prompt = openai.CompletionNewParamsPromptUnion{OfArrayOfStrings: []string{"One day", "Lily"}}
	two, err := c.Completions.New(t.Context(), lists)
	require.NoError(t, err)
	require.Len(t, two.Choices, 2)
	require.EqualValues(t, 1, two.Choices[1].Index)
}

// The second turn of a conversation finds the first, streamed and whole.
func TestChat(t *testing.T) {
	c := serve(t)
	messages := []openai.ChatCompletionMessageParamUnion{openai.SystemMessage("You tell stories."), openai.UserMessage("Of a dog.")}
	params := openai.ChatCompletionNewParams{Model: model(t, c), Messages: messages, MaxCompletionTokens: openai.Int(30), Seed: openai.Int(7)}
	first, err := c.Chat.Completions.New(t.Context(), params)
	require.NoError(t, err)
	answer := first.Choices[0].Message
	require.EqualValues(t, "assistant", answer.Role)
	require.NotEmpty(t, answer.Content)

	stream := c.Chat.Completions.NewStreaming(t.Context(), params)
	var sum openai.ChatCompletionAccumulator
	for stream.Next() {
		require.True(t, sum.AddChunk(stream.Current()))
	}
	require.NoError(t, stream.Err())
	require.Equal(t, answer.Content, sum.Choices[0].Message.Content, "the same seed")

	params.Messages = append(messages, answer.ToParam(), openai.UserMessage("And of a cat."))
	second, err := c.Chat.Completions.New(t.Context(), params)
	require.NoError(t, err)
	require.GreaterOrEqual(t, second.Usage.PromptTokensDetails.CachedTokens, first.Usage.TotalTokens-1)
}

// Refusals are errors of the client's own type that name the field.
func TestErrors(t *testing.T) {
	c := serve(t)
	name := model(t, c)
	for _, test := range []struct {
		change func(*openai.CompletionNewParams)
		status int
		param  string
	}{
		{func(p *openai.CompletionNewParams) { p.Model = "another" }, 404, "model"},
		{func(p *openai.CompletionNewParams) { p.Logprobs = openai.Int(3) }, 400, "logprobs"},
		{func(p *openai.CompletionNewParams) { p.N = openai.Int(2) }, 400, "n"},
		{func(p *openai.CompletionNewParams) { p.Temperature = openai.Float(-1) }, 400, "temperature"},
		{func(p *openai.CompletionNewParams) {
			p.Prompt.OfString = openai.String(strings.Repeat("a long prompt ", 1000))
		}, 400, "prompt"},
	} {
		params := completion(name, "Once", 3)
		test.change(&params)
		_, err := c.Completions.New(t.Context(), params)
		var refused *openai.Error
		require.ErrorAs(t, err, &refused, test.param)
		require.Equal(t, test.status, refused.StatusCode, refused.RawJSON())
		require.Equal(t, test.param, refused.Param, refused.RawJSON())
		require.NotEmpty(t, refused.Message)
	}
	_, err := c.Completions.New(t.Context(), completion(name, "Once", 3), option.WithAPIKey("another key"))
	var refused *openai.Error
	require.ErrorAs(t, err, &refused)
	require.Equal(t, 401, refused.StatusCode)
	require.NotContains(t, fmt.Sprint(err), key)
}

// A client that leaves in the middle of a stream does not disturb the next one.
func TestClientThatLeaves(t *testing.T) {
	c := serve(t, "--max-running", "1")
	name := model(t, c)
	want, err := c.Completions.New(t.Context(), completion(name, "The big dog", 30))
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	stream := c.Completions.NewStreaming(ctx, completion(name, "The big dog", 400))
	require.True(t, stream.Next(), "%v", stream.Err())
	cancel()
	for stream.Next() {
	}
	require.ErrorIs(t, stream.Err(), context.Canceled)
	got, err := c.Completions.New(t.Context(), completion(name, "The big dog", 30))
	require.NoError(t, err)
	require.Equal(t, want.Choices[0].Text, got.Choices[0].Text)
}
