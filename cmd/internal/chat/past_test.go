package chat

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// bytesOf is a vocabulary of bytes with BOS, 256.
func bytesOf(text string, begins bool) (tokens []uint32) {
	if begins {
		tokens = []uint32{256}
	}
	for i := range len(text) {
		tokens = append(tokens, uint32(text[i]))
	}
	return tokens
}

// The tokens of an answer stay those that the model chose, as long as the template repeats its text; what it changes is encoded anew.
func TestPast(t *testing.T) {
	var p Past
	p.Continue("U:hi A:", bytesOf)
	require.Equal(t, bytesOf("U:hi A:", true), p.Tokens)
	p.Add(300, "<t>x</t>", true)
	p.Add(301, "yes", true)
	p.Add(302, "", false) // a part of a character
	p.End(len("<t>x</t>yes"))
	require.Equal(t, Past{Text: "U:hi A:<t>x</t>yes", Tokens: append(bytesOf("U:hi A:", true), 300, 301), Marks: []Mark{{7, 8}, {18, 10}}, answer: 1}, p)
	require.True(t, p.Valid(302))
	require.False(t, p.Valid(301))

	whole := p
	whole.Continue("U:hi A:<t>x</t>yes U:bye A:", bytesOf)
	require.Equal(t, append(append(bytesOf("U:hi A:", true), 300, 301), bytesOf(" U:bye A:", false)...), whole.Tokens)
	require.Equal(t, []Mark{{7, 8}, {18, 10}, {27, 19}}, whole.Marks)

	dropped := p
	dropped.Continue("U:hi A:yes U:bye A:", bytesOf)
	require.Equal(t, bytesOf("U:hi A:yes U:bye A:", true), dropped.Tokens)
	require.Equal(t, []Mark{{7, 8}, {19, 20}}, dropped.Marks)
	require.Equal(t, append(bytesOf("U:hi A:", true), 300, 301), p.Tokens, "the past that it was stays")

	other := p
	other.Continue("S", bytesOf)
	require.Equal(t, bytesOf("S", true), other.Tokens)

	cut := p
	cut.Continue("U:hi A:<t>x</t>yes U:", bytesOf)
	cut.Add(300, "abc", true)
	cut.Add(301, "def", true)
	cut.End(4) // a stop string begins within 301
	require.Equal(t, "U:hi A:<t>x</t>yes U:abc", cut.Text)
	require.EqualValues(t, 300, cut.Tokens[len(cut.Tokens)-1])
	cut.End(0)
	require.Equal(t, "U:hi A:<t>x</t>yes U:", cut.Text)

	for _, bad := range []Past{{Marks: []Mark{{1, 0}}}, {Marks: []Mark{{0, 1}}}, {Text: "ab", Tokens: []uint32{1, 2}, Marks: []Mark{{2, 2}, {1, 2}}}, {Marks: []Mark{{-1, 0}}}} {
		require.False(t, bad.Valid(10))
	}
}

// An answer that the template puts white space before is taken without its own there, and keeps what it ends with.
func TestPastRender(t *testing.T) {
	spaced := &Template{Source: `{% for m in messages %}{{ m.role }}: {{ m.content }};{% endfor %}{% if add_generation_prompt %}assistant:{% endif %}`}
	asked := []Message{{"user", "hi"}}
	for _, c := range []struct{ said, follows, as string }{
		{" \nyes ", "user: hi;assistant:  \nyes ;user: more;assistant:", " \nyes "}, // no spelling follows the past
		{" yes ", "user: hi;assistant: yes ;user: more;assistant:", "yes "},
	} {
		var p Past
		text, _, err := p.Render(t.Context(), spaced, asked, -1)
		require.NoError(t, err)
		p.Continue(text, bytesOf)
		p.Add(300, c.said, true)
		p.End(len(c.said))
		messages := append(asked, Message{"assistant", c.said}, Message{"user", "more"})
		text, as, err := p.Render(t.Context(), spaced, messages, 1)
		require.NoError(t, err)
		require.Equal(t, c.follows, text)
		require.Equal(t, c.as, as[1].Content)
		require.Equal(t, c.said, messages[1].Content, "the caller's stay")
	}
	var p Past
	_, _, err := p.Render(t.Context(), &Template{Source: "{{ raise_exception('no') }}"}, asked, 0)
	require.ErrorContains(t, err, "no")
}
