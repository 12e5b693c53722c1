package chat

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// However the text of an answer is cut, its parts are the same; control tokens come whole.
func TestParts(t *testing.T) {
	for _, c := range []struct {
		prompt, answer         string // in answer «» are around control tokens
		thought, said, content string
	}{
		{prompt: "Hi", answer: " Hello <think>x</think>", said: " Hello <think>x</think>", content: " Hello <think>x</think>"},
		{answer: "\n <thin", said: "\n <thin", content: "\n <thin"},
		{answer: "\n", said: "\n", content: "\n"},
		{answer: "«</think>»A«</think>»«<think>»B", said: "AB", content: "AB"},
		{answer: "<think>\nA greeting,\n so </th.\n</think>\n\nHello\n", thought: "A greeting,\n so </th.", said: "Hello\n", content: "<think>\nA greeting,\n so </th.\n</think>\n\nHello\n"},
		{answer: "«<think>»A«</think>»Hello«<|im_start|>»", thought: "A", said: "Hello", content: "<think>A</think>Hello"},
		{answer: "\n<think>\n\n</think>\n\nHello", said: "Hello", content: "\n<think>\n\n</think>\n\nHello"},
		{answer: "<think>A </th", thought: "A </th", content: "<think>A </th</think>"},
		{prompt: "<think>\n", answer: "A\n</think>\n</think>Hello", thought: "A", said: "</think>Hello", content: "A\n</think>\n</think>Hello"},
		{answer: "a</think>b", said: "a</think>b", content: "a</think>b"},
		{answer: "«<|channel|>»analysis«<|message|>»A greeting.\n«<|end|>»«<|start|>»assistant«<|channel|>»commentary«<|message|>» So.«<|end|>»«<|start|>»assistant«<|channel|>»final«<|message|>» Hello\n",
			thought: "A greeting.\nSo.", said: " Hello\n", content: " Hello\n"},
		{answer: "«<|channel|>»final «<|constrain|>»json«<|message|>»{}", said: "{}", content: "{}"},
		{answer: "«<|channel|>»analysis«<|message|>»A </think>b", thought: "A </think>b"},
		{answer: "Hello«<|end|>»", said: "Hello", content: "Hello"},
		{answer: "<|channel|>analysis<|message|>A", said: "<|channel|>analysis<|message|>A", content: "<|channel|>analysis<|message|>A"},
	} {
		rapid.Check(t, func(t *rapid.T) {
			p := NewParts(c.prompt)
			thought, said := "", ""
			take := func(parts []Part) {
				for _, part := range parts {
					require.NotEmpty(t, part.Text)
					if part.Thought {
						thought += part.Text
					} else {
						said += part.Text
					}
				}
			}
			for piece := range strings.SplitSeq(c.answer, "«") {
				name, text, control := strings.Cut(piece, "»")
				if !control {
					text = piece
				} else {
					take(p.Add(name, true))
				}
				for text != "" {
					n := rapid.IntRange(1, min(len(text), 10)).Draw(t, "bytes")
					take(p.Add(text[:n], false))
					text = text[n:]
				}
			}
			take(p.Rest())
			require.Equal(t, []string{c.thought, c.said, c.content}, []string{thought, said, p.Content(0)}, c.answer)
			if c.said != "" {
				require.Equal(t, c.content[:len(c.content)-1], p.Content(1))
			}
		})
	}
}

// The thoughts of gpt-oss are not in the next prompt, and what comes before them stays; an answer without any stays whole.
func TestHarmonyGoesOn(t *testing.T) {
	sources, _ := templates(t)
	at := Template{Source: sources["harmony.jinja"]}
	names := []string{"<|start|>", "<|channel|>", "<|message|>", "<|end|>"}
	encode := func(text string, _ bool) (tokens []uint32) { // bytes, and control tokens after them
		for text != "" {
			n := 1
			token := uint32(text[0])
			for i, name := range names {
				if strings.HasPrefix(text, name) {
					token, n = uint32(256+i), len(name)
				}
			}
			tokens, text = append(tokens, token), text[n:]
		}
		return tokens
	}
	for _, c := range []struct {
		answer string
		same   int // tokens of the answer in the next prompt
	}{{"<|channel|>analysis<|message|>A greeting.<|end|><|start|>assistant<|channel|>final<|message|>Hello", 1}, {"<|channel|>final<|message|>Hello", 1 + 5 + 1 + 5}} {
		messages := []Message{{"user", "Hi"}}
		prompt, err := at.render(messages, true)
		require.NoError(t, err)
		var p Past
		p.Continue(prompt, encode)
		before, parts := len(p.Tokens), NewParts(prompt)
		for _, token := range encode(c.answer, false) {
			text := string(rune(token))
			if token >= 256 {
				text = names[token-256]
			}
			p.Add(token, text, true)
			parts.Add(text, token >= 256)
		}
		p.End(len(c.answer))
		require.Equal(t, "Hello", parts.Content(0))
		read := p.Tokens
		next, err := at.render(append(messages, Message{"assistant", parts.Content(0)}, Message{"user", "Bye"}), true)
		require.NoError(t, err)
		p.Continue(next, encode)
		require.Equal(t, encode(next, true), p.Tokens)
		n := 0
		for n < len(read) && read[n] == p.Tokens[n] {
			n++
		}
		require.Equal(t, before+c.same, n, c.answer)
	}
}
