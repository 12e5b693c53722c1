package chat

import (
	"strings"
	"unicode"
)

// Part is a piece of an answer: of what the model thinks before it answers, or of what it says.
type Part struct {
	Thought bool
	Text    string
}

// Parts divides an answer, as it comes, into what the model thinks and what it says. Models think between <think> and </think> (Qwen3,
// DeepSeek R1), or in channels of messages of which "final" is what they say (Harmony, the format of gpt-oss).
type Parts struct {
	at      place
	held    string          // the end of the text so far: white space, and what may be a part of a mark
	header  strings.Builder // of a message, such as "assistant" or "final"
	harmony bool            // it has such messages
	thought bool            // something was thought
	blank   bool            // white space is left out: the thought, or what is said after it, has not begun
	raw     strings.Builder // the text with <think> and </think>
	said    strings.Builder // what is said
}

// place is where in an answer its end is.
type place int

const (
	beginning place = iota // nothing but white space
	thinking
	saying
	heading // in a message's header
)

const (
	thinkBegins = "<think>"
	thinkEnds   = "</think>"
	// channelBegins is the first token of an answer in messages, and of no other vocabulary.
	channelBegins = "<|channel|>"
)

// harmonyMarks are the tokens of Harmony, and what follows each; after message it depends on the header.
var harmonyMarks = map[string]place{"<|start|>": heading, channelBegins: heading, "<|message|>": saying, "<|end|>": heading}

// NewParts is for the answer to a prompt. Some templates begin the thought: their prompts end in <think>.
func NewParts(prompt string) *Parts {
	p := &Parts{}
	if strings.HasSuffix(strings.TrimRightFunc(prompt, unicode.IsSpace), thinkBegins) {
		p.at, p.blank = thinking, true
	}
	return p
}

// Add is what is certain with the text of another token. That of a control token is its name, which is no part.
func (p *Parts) Add(text string, control bool) []Part {
	if next, mark := harmonyMarks[text]; mark && (p.harmony || text == channelBegins) {
		return p.message(next)
	}
	if control && !(p.at == beginning && text == thinkBegins || p.at == thinking && text == thinkEnds) {
		return nil
	}
	p.raw.WriteString(text)
	text, p.held = p.held+text, ""
	if p.at == beginning {
		start := strings.TrimLeftFunc(text, unicode.IsSpace)
		after, thinks := strings.CutPrefix(start, thinkBegins)
		switch {
		case thinks:
			p.at, p.blank, text = thinking, true, after
		case strings.HasPrefix(thinkBegins, start):
			p.held = text
			return nil
		default:
			p.at = saying
		}
	}
	switch p.at {
	case heading:
		p.header.WriteString(text)
		return nil
	case thinking:
		return p.think(text)
	}
	return p.part(nil, text)
}

// message takes a mark of Harmony, and is what is certain of the text before it.
func (p *Parts) message(next place) []Part {
	parts := p.Rest()
	p.at, p.harmony = next, true
	if p.at == saying {
		header := p.header.String()
		if strings.HasPrefix(header, "analysis") || strings.HasPrefix(header, "commentary") {
			p.at, p.blank = thinking, true
		}
	}
	p.header.Reset()
	return parts
}

// think takes text of a thought, and what is said if the thought ends there.
func (p *Parts) think(text string) []Part {
	inside, after, over := strings.Cut(text, thinkEnds)
	if over && !p.harmony {
		parts := p.part(nil, strings.TrimRightFunc(inside, unicode.IsSpace))
		p.at, p.blank = saying, true
		return p.part(parts, after)
	}
	certain := strings.TrimRightFunc(text[:len(text)-begun(text, thinkEnds)], unicode.IsSpace)
	p.held = text[len(certain):]
	return p.part(nil, certain)
}

// part appends text of where the answer is. A thought after another one begins a line.
func (p *Parts) part(parts []Part, text string) []Part {
	if p.blank {
		text = strings.TrimLeftFunc(text, unicode.IsSpace)
	}
	if text == "" {
		return parts
	}
	switch {
	case p.at == saying:
		p.said.WriteString(text)
	case p.blank && p.thought:
		text = "\n" + text
	}
	p.thought = p.thought || p.at == thinking
	p.blank = false
	return append(parts, Part{p.at == thinking, text})
}

// Rest is what is left when no text follows.
func (p *Parts) Rest() []Part {
	text := p.held
	if p.held = ""; p.at == thinking {
		text = strings.TrimRightFunc(text, unicode.IsSpace)
	} else if p.at == beginning && text != "" {
		p.at = saying
	}
	return p.part(nil, text)
}

// Content is the answer as the next turn's template receives it, less the last without bytes. Marks such as <think> stay in it: templates
// remove the thoughts that a model is not to see again, and a thought that was cut off is closed here. Of channels it is the final text alone.
func (p *Parts) Content(without int) string {
	text := p.raw.String()
	switch {
	case p.harmony:
		text = p.said.String()
	case p.at == thinking:
		text += thinkEnds
	}
	return text[:max(0, len(text)-without)]
}
