package server

import (
	"strings"
	"testing"

	"github.com/ferrumkv/ferrumkv/cmd/internal/chat"
	"github.com/ferrumkv/ferrumkv/cmd/internal/serving"
	"github.com/stretchr/testify/require"
)

func say(role, text string) object { return object{"role": role, "content": text} }

// talk asks for the next message of a conversation, greedily.
func (r *rig) talk(messages []object, more ...object) object {
	r.Helper()
	body := object{"messages": messages, "max_completion_tokens": 40, "temperature": 0}
	for _, m := range more {
		for k, v := range m {
			body[k] = v
		}
	}
	return r.post("/v1/chat/completions", body)
}

// ids are the tokens that rendering gives.
func (r *rig) ids(messages []object, more ...object) []any {
	r.Helper()
	body := object{"messages": messages}
	for _, m := range more {
		for k, v := range m {
			body[k] = v
		}
	}
	return r.post("/v1/chat/completions/render", body)["token_ids"].([]any)
}

// The second turn finds the first with its answer, and each answer is that of the whole text.
func TestConversation(t *testing.T) {
	r := newRig(t, rigOptions{})
	said := []object{say("system", "A story"), say("user", "Once upon a time")}
	text := "system: A story\nuser: Once upon a time\n"
	known := 0.
	for _, next := range []string{"The big dog", "Lily was sad", ""} {
		a := r.talk(said)
		require.Equal(t, "chat.completion", a["object"])
		require.Equal(t, "assistant", at(a, "choices.0.message.role"))
		answer := at(a, "choices.0.message.content").(string)
		require.Equal(t, at(r.complete(text, 40), "choices.0.text"), answer)
		require.Equal(t, float64(len(text)+1), at(a, "usage.prompt_tokens"))
		require.Nil(t, at(a, "usage.prompt_tokens_details.diverged"))
		cached := at(a, "usage.prompt_tokens_details.cached_tokens").(float64)
		require.GreaterOrEqual(t, cached, known-1, "but for the last token of the answer")
		known = at(a, "usage.total_tokens").(float64)

		streamed := ""
		all := r.chunks("/v1/chat/completions", object{"messages": said, "max_tokens": 40, "temperature": 0, "stream": true})
		require.Equal(t, object{"role": "assistant", "content": ""}, at(all[0], "choices.0.delta"))
		for _, c := range all {
			require.Equal(t, "chat.completion.chunk", c["object"])
			piece, _ := at(c, "choices.0.delta.content").(string)
			streamed += piece
		}
		require.Equal(t, answer, streamed)
		said = append(said, at(a, "choices.0.message").(object), say("user", next))
		text += answer + "\nuser: " + next + "\n"
	}
	require.Len(t, r.ids(said), len(text)+1)
}

// A client may cut white space around answers, and send texts in parts.
func TestConversationAsClientsSendIt(t *testing.T) {
	r := newRig(t, rigOptions{})
	user := say("user", "Once upon a time ")
	answer := at(r.talk([]object{user}), "choices.0.message.content").(string)
	whole := r.ids([]object{user, say("assistant", answer), say("user", "x")})
	cut := r.ids([]object{user, say("assistant", "\n"+strings.TrimSpace(answer)+" "), say("user", "x")})
	require.Equal(t, whole, cut)
	parts := []object{{"role": "user", "content": []object{{"type": "text", "text": "Once upon"}, {"type": "text", "text": " a time "}}},
		{"role": "assistant", "content": answer, "refusal": nil, "reasoning_content": "y", "tool_calls": []any{}}, say("user", "x")}
	require.Equal(t, whole, r.ids(parts))
}

// Where a template puts a space before answers, and the model writes it, too, the prompt goes on from it.
func TestSpaceBeforeAnswers(t *testing.T) {
	spaced := `{% for m in messages %}{% if m.role == "assistant" %}One day, {{ m.content }}
{% else %}{{ m.content }}
{% endif %}{% endfor %}{% if add_generation_prompt %}One day,{% endif %}`
	r := newRig(t, rigOptions{engine: serving.Options{Template: &chat.Template{Source: spaced}}})
	said := []object{say("user", "Once upon a time")}
	known := 0.
	for range 3 {
		a := r.talk(said)
		require.True(t, strings.HasPrefix(at(a, "choices.0.message.content").(string), " "))
		require.Nil(t, at(a, "usage.prompt_tokens_details.diverged"))
		require.GreaterOrEqual(t, at(a, "usage.prompt_tokens_details.cached_tokens"), known)
		known = at(a, "usage.total_tokens").(float64) - 1
		said = append(said, at(a, "choices.0.message").(object), say("user", "The big dog"))
	}
}

// A template that takes out what was thought makes the prompt leave the path that was computed, and the answer and the log say where.
func TestDiverged(t *testing.T) {
	thinks := `{% for m in messages %}{{ m.role }}: {{ m.content.split("</think>")[-1] }}
{% endfor %}{% if add_generation_prompt %}<think>
{% endif %}`
	r := newRig(t, rigOptions{engine: serving.Options{Template: &chat.Template{Source: thinks}}})
	said := []object{say("user", "Once upon a time")}
	a := r.talk(said)
	require.Empty(t, at(a, "choices.0.message.content"), "the model never ends its thought")
	require.NotEmpty(t, at(a, "choices.0.message.reasoning_content"))
	said = append(said, at(a, "choices.0.message").(object), say("user", "The big dog"))
	b := r.talk(said)
	first := 1 + len("user: Once upon a time\n")
	require.Equal(t, object{"at": float64(first), "of": at(a, "usage.total_tokens")}, at(b, "usage.prompt_tokens_details.diverged"))
	require.Equal(t, float64(first), at(b, "usage.prompt_tokens_details.cached_tokens"))
	eventually(t, func() bool { return strings.Contains(r.log.String(), `path="diverged at token 24 of`) })

	streamed := ""
	for _, c := range r.chunks("/v1/chat/completions", object{"messages": said[:1], "max_tokens": 40, "temperature": 0, "stream": true}) {
		piece, _ := at(c, "choices.0.delta.reasoning_content").(string)
		streamed += piece
	}
	require.Equal(t, at(a, "choices.0.message.reasoning_content"), streamed)
}

// Where the template keeps what was thought, so does the conversation, though the client sends the answer alone.
func TestThoughtsStay(t *testing.T) {
	keeps := `{% for m in messages %}{{ m.role }}: {{ m.content }}
{% endfor %}{% if add_generation_prompt %}assistant: <think>{% endif %}`
	r := newRig(t, rigOptions{engine: serving.Options{Template: &chat.Template{Source: keeps}}})
	said := []object{say("user", "Once upon a time")}
	a := r.talk(said, object{"cache_salt": "a"})
	answer := object{"role": "assistant", "content": at(a, "choices.0.message.content")}
	said = append(said, answer, say("user", "The big dog"))
	require.Less(t, len(r.ids(said, object{"cache_salt": "b"})), len(r.ids(said, object{"cache_salt": "a"})), "another tenant's thoughts are not there")
	require.Less(t, len(r.ids(said)), len(r.ids(said, object{"cache_salt": "a"})))
}
