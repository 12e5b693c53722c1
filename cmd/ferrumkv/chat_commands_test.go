package main

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// Lines for the program are no messages: after /clear the conversation is that of its system prompt alone, and after /exit there is none.
func TestChatCommands(t *testing.T) {
	snap := filepath.Join(t.TempDir(), "talk.snap")
	args := []string{"--system", "A story", "--max-tokens", "20"}
	answers := chats(t, said[0]+"\n/help\n"+said[1]+"\n/clear\n"+said[0]+"\n /exit \n"+said[2]+"\n", append(args, "--save", snap)...)
	require.Len(t, answers, 3)
	require.Greater(t, answers[1]["prompt_tokens"], answers[0]["prompt_tokens"])
	require.Equal(t, answers[0]["prompt_tokens"], answers[2]["prompt_tokens"])
	require.Equal(t, answers[0]["text"], answers[2]["text"])
	next := chats(t, said[1], "--resume", snap, "--max-tokens", "20")
	require.Equal(t, answers[1]["text"], next[0]["text"], "what was cleared is not saved")

	says(t, "/help\n/bye\n")
	r := succeeds(t, "chat", "--template", file(t, "t.jinja", storyTemplate))
	require.Empty(t, r.stdout)
	require.Equal(t, "["+chatCommands+"]\n", r.stderr)
}

// What other programs call a prompt is answered by what chat has.
func TestChatPromptFlags(t *testing.T) {
	for _, flag := range []string{"-p", "-f", "--prompt"} {
		fails(t, []string{"chat", flag, "x"}, "chat reads what you say from standard input; --system is for a system prompt")
	}
}
