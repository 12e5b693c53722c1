package serving

import (
	"container/list"
	"crypto/sha256"
	"encoding/binary"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/ferrumkv/ferrumkv/cmd/internal/chat"
)

// conversation is what the engine remembers of one, up to an answer.
type conversation struct {
	rendered []chat.Message // with answers as the model wrote them
	past     chat.Past
	now      time.Time

	key   key
	bytes int
}

// key is a hash of a salt and of messages as clients send them.
type key [sha256.Size]byte

// memory is the conversations that were answered last.
type memory struct {
	most int // bytes

	mu    sync.Mutex
	bytes int
	all   map[key]*list.Element
	used  list.List // of *conversation, the last used first
}

func newMemory(most int) *memory { return &memory{most: most, all: map[key]*list.Element{}} }

// keys are those of the first messages of a conversation, one after each of them. Clients cut white space around answers: it does not count.
func keys(salt []byte, messages []chat.Message) []key {
	h := sha256.New()
	write := func(text string) {
		h.Write(binary.LittleEndian.AppendUint64(nil, uint64(len(text))))
		h.Write([]byte(text))
	}
	if salt == nil { // which no salt begins like
		write("")
	} else {
		write("salt")
		write(string(salt))
	}
	out := make([]key, len(messages))
	for i, m := range messages {
		if m.Role == "assistant" {
			m.Content = strings.TrimSpace(m.Content)
		}
		write(m.Role)
		write(m.Content)
		h.Sum(out[i][:0])
	}
	return out
}

// find is the conversation with the most of the messages, n; nil: there is none.
func (m *memory) find(salt []byte, messages []chat.Message) (c *conversation, n int) {
	all := keys(salt, messages)
	m.mu.Lock()
	defer m.mu.Unlock()
	for n := len(all); n > 0; n-- {
		if e := m.all[all[n-1]]; e != nil && messages[n-1].Role == "assistant" {
			m.used.MoveToFront(e)
			return e.Value.(*conversation), n
		}
	}
	return nil, 0
}

// add keeps a conversation of these messages, and forgets those that were not used for longest.
func (m *memory) add(salt []byte, messages []chat.Message, c *conversation) {
	all := keys(salt, messages)
	// without the room that the answer grew in
	c.past.Text, c.past.Tokens, c.past.Marks = strings.Clone(c.past.Text), slices.Clone(c.past.Tokens), slices.Clone(c.past.Marks)
	c.key, c.bytes = all[len(all)-1], 256+len(c.past.Text)+4*len(c.past.Tokens)+16*len(c.past.Marks)
	for _, msg := range c.rendered {
		c.bytes += 64 + len(msg.Content)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.forget(m.all[c.key])
	m.all[c.key] = m.used.PushFront(c)
	m.bytes += c.bytes
	for m.bytes > m.most {
		m.forget(m.used.Back())
	}
}

func (m *memory) forget(e *list.Element) {
	if e == nil {
		return
	}
	c := m.used.Remove(e).(*conversation)
	delete(m.all, c.key)
	m.bytes -= c.bytes
}
