package chat

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

var hello = []Message{{"user", "hello"}}

// What a process apart renders is what this one does.
func TestRender(t *testing.T) {
	sources, _ := templates(t)
	at := Template{Source: sources["harmony.jinja"], BOS: "<s>", Now: time.Now()}
	want, err := at.render(hello, true)
	require.NoError(t, err)
	text, err := at.Render(t.Context(), hello, true)
	require.NoError(t, err)
	require.Equal(t, want, text)
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = at.Render(ended, hello, true)
	require.ErrorIs(t, err, context.Canceled)
}

// few is less than Render accepts, to be over sooner, and bounds are how a template that takes more ends; of which it has too much first depends on the
// machine.
var few = limits{2 * time.Second, 64 << 20}

const bounds = "takes more than 64 MiB of memory|takes longer than 2s|the process that does it ended"

// Templates that would read files, go on for ever or take all memory are refused, and so are those that are none.
func TestHostileTemplates(t *testing.T) {
	for _, c := range []struct{ source, why string }{
		{`{{ raise_exception('no system prompt') }}`, "no system prompt"},
		{`{% include '/etc/hostname' %}`, `unknown statement "include"`},
		{`{% import '/etc/hostname' as x %}`, `unknown statement "import"`},
		{`{% extends '/etc/hostname' %}`, `unknown statement "extends"`},
		{`{% from '/etc/hostname' import x %}`, `unknown statement "from"`},
		{`{{ open('/etc/hostname').read() }}`, "open"},
		{`{{ ''.__class__.__mro__[1].__subclasses__() }}`, "not callable"},
		{`{{ messages`, "line 1: a tag has no end"},
		{"\n{# messages", "line 2: a comment has no end"},
		{`{{ 'messages }}`, "line 1: a string has no end"},
		{`{% if true %}`, "if"},
		{`{% raw %}`, "line 1: raw has no end"},
		{`{{ 'x' * -1 }}`, "negative Repeat count"},
		{`{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}`, bounds},
		{`{% for i in range(1000000000000) %}{% endfor %}`, bounds},
		{`{% set ns = namespace(x='abcdefgh') %}{% for i in range(60) %}{% set ns.x = ns.x ~ ns.x %}{% endfor %}`, bounds},
		{`{{ 'x' * 100000000000000 }}`, bounds},
	} {
		most := most
		if c.why == bounds {
			most = few
		}
		began := time.Now()
		_, err := (&Template{Source: c.source}).renderWithin(t.Context(), hello, true, most)
		require.ErrorIs(t, err, ErrTemplate{}, c.source)
		require.Regexp(t, c.why, err.Error(), c.source)
		require.Less(t, time.Since(began), most.time+5*time.Second, c.source)
	}
	_, err := (&Template{Source: `{% set l = range(100000) %}{% for a in l %}{% for b in l %}{% endfor %}{% endfor %}`}).renderWithin(t.Context(), hello, true, few)
	require.ErrorContains(t, err, "takes longer than 2s")
	large := Template{Source: string(make([]byte, maxSource+1))}
	_, err = large.render(nil, false)
	require.ErrorContains(t, err, "has 1048577 bytes, at most 1048576")
}

func TestErrTemplate(t *testing.T) {
	require.ErrorIs(t, ErrTemplate{"x"}, ErrTemplate{})
	require.NotErrorIs(t, errors.New("x"), ErrTemplate{})
}
