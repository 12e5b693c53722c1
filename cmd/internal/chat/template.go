// Package chat makes text of conversations, as models' chat templates have it, and cuts answers at stop strings.
package chat

import (
	"fmt"
	"strings"
	"time"

	"github.com/ardanlabs/jinja"
)

// Message is what one side of a conversation says.
type Message struct {
	Role    string `json:"role"` // system, user or assistant
	Content string `json:"content"`
}

// Template is a model's chat template in Jinja, with what it may name.
type Template struct {
	Source   string
	BOS, EOS string // the texts of these tokens
	// Now is the time that the template may print. It stays the same for all of a conversation, whose beginning would change otherwise.
	Now time.Time
}

// ErrTemplate is a template that cannot be used, or refuses a conversation: errors.Is(err, ErrTemplate{}) matches any.
type ErrTemplate struct{ Why string }

func (e ErrTemplate) Error() string        { return "the chat template: " + e.Why }
func (e ErrTemplate) Is(target error) bool { return target == ErrTemplate{} }

// maxSource is the most bytes of a template; those of models have up to a few tens of KiB.
const maxSource = 1 << 20

// render is the text of a conversation, with answer up to where the model's next answer begins. Nothing bounds the time and memory that a
// template takes: see Render.
func (t *Template) render(messages []Message, answer bool) (text string, err error) {
	defer func() {
		if failed := recover(); failed != nil { // the library's operators do that for a few values
			err = fmt.Errorf("%v", failed)
		}
	}()
	source, err := rewrite(t.Source)
	if err != nil {
		return "", err
	}
	compiled, err := jinja.Compile(source)
	if err != nil {
		return "", err
	}
	var list []jinja.Value
	for _, m := range messages {
		one := jinja.NewDict()
		one.AsDict().Set("role", jinja.NewString(m.Role))
		one.AsDict().Set("content", jinja.NewString(m.Content))
		list = append(list, one)
	}
	return compiled.RenderValues(map[string]jinja.Value{
		"messages": jinja.NewList(list), "add_generation_prompt": jinja.NewBool(answer),
		"bos_token": jinja.NewString(t.BOS), "eos_token": jinja.NewString(t.EOS),
		"tools": jinja.None(), "documents": jinja.None(), // as transformers passes them where there are none
		"strftime_now": jinja.NewCallable("strftime_now", t.now),
	})
}

// now is strftime_now(format).
func (t *Template) now(args []jinja.Value, _ map[string]jinja.Value) (jinja.Value, error) {
	if len(args) != 1 || !args[0].IsString() {
		return jinja.Undefined(), fmt.Errorf("strftime_now takes a format")
	}
	return jinja.NewString(strftime(t.Now, args[0].AsString())), nil
}

// layouts are Go's of what follows % in formats of strftime.
var layouts = map[string]string{
	"Y": "2006", "m": "01", "d": "02", "H": "15", "M": "04", "S": "05", "y": "06", "B": "January", "b": "Jan", "A": "Monday", "a": "Mon",
	"p": "PM", "I": "03", "Z": "MST", "z": "-0700", "j": "002", "e": "_2", "-d": "2", "-m": "1", "-I": "3", "F": "2006-01-02", "T": "15:04:05",
}

// strftime prints a time as C and Python do. What it does not know it leaves as it is.
func strftime(at time.Time, format string) string {
	var out strings.Builder
	for format != "" {
		text, rest, found := strings.Cut(format, "%")
		out.WriteString(text)
		if format = rest; !found {
			break
		}
		n := min(1, len(rest))
		if strings.HasPrefix(rest, "-") {
			n = min(2, len(rest))
		}
		switch layout := layouts[rest[:n]]; {
		case rest[:n] == "%":
			out.WriteByte('%')
		case layout != "":
			out.WriteString(at.Format(layout))
		default:
			out.WriteString("%" + rest[:n])
		}
		format = rest[n:]
	}
	return out.String()
}
