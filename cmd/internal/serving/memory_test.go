package serving

import (
	"encoding/binary"
	"fmt"
	"strings"
	"testing"
	"unsafe"

	"github.com/ferrumkv/ferrumkv/cmd/internal/chat"
	"github.com/stretchr/testify/require"
)

func dialogue(texts ...string) (all []chat.Message) {
	for i, text := range texts {
		all = append(all, chat.Message{Role: []string{"user", "assistant"}[i%2], Content: text})
	}
	return all
}

// The longest beginning that ends with an answer is found, for its tenant alone; the bounds hold.
func TestMemory(t *testing.T) {
	m := newMemory(10_000)
	long := func(n int) *conversation { return &conversation{past: chat.Past{Text: strings.Repeat("x", n)}} }
	first, second := long(1), long(2)
	m.add(nil, dialogue("a", "b"), first)
	m.add(nil, dialogue("a", "b", "c", "d"), second)
	for _, c := range []struct {
		messages []chat.Message
		want     *conversation
		n        int
	}{
		{dialogue("a", "b", "c", "d", "e"), second, 4}, {dialogue("a", "b", "c", " d\n"), second, 4}, {dialogue("a", "b", "c"), first, 2}, {dialogue("a", "b", "x", "d", "e"), first, 2},
		{dialogue("a "), nil, 0}, {dialogue("ab", ""), nil, 0}, {dialogue("a ", "b"), nil, 0}, {nil, nil, 0},
	} {
		found, n := m.find(nil, c.messages)
		require.True(t, found == c.want, "%v", c.messages)
		require.Equal(t, c.n, n)
	}
	for _, salt := range [][]byte{{}, []byte("a")} {
		found, _ := m.find(salt, dialogue("a", "b"))
		require.Nil(t, found)
	}
	again := long(3)
	m.add(nil, dialogue("a", "b"), again)
	require.Len(t, m.all, 2)
	for i := range 20 {
		m.add([]byte("a"), dialogue("a", fmt.Sprint(i)), long(1000))
		found, _ := m.find(nil, dialogue("a", "b"))
		require.True(t, found == again, "it was used")
		require.LessOrEqual(t, m.bytes, m.most)
		require.Equal(t, len(m.all), m.used.Len())
	}
	found, _ := m.find([]byte("a"), dialogue("a", "0"))
	require.Nil(t, found)
	found, _ = m.find([]byte("a"), dialogue("a", "19"))
	require.NotNil(t, found)
	m.add(nil, dialogue("a", "huge"), long(20_000))
	require.Zero(t, m.bytes)
	require.Empty(t, m.all)
}

// Whatever bytes a salt has, nothing is found with it that was computed without.
func TestMemorySalt(t *testing.T) {
	m := newMemory(10_000)
	number := func(n int) string { return string(binary.LittleEndian.AppendUint64(nil, uint64(n))) }
	end := "\x00" + number(4) + "user" + number(1) + "z"
	text := strings.Repeat("y", 1024-len("\x00user")-8) + end
	m.add(nil, dialogue(text, "answer"), &conversation{})
	// 0, the length of a role and the role have the same bytes as the length of a salt of 1024 bytes and how it begins
	salt := "\x00user" + number(len(text)) + strings.TrimSuffix(text, end)
	require.Len(t, salt, 1024)
	found, _ := m.find([]byte(salt), dialogue("z", "answer"))
	require.Nil(t, found)
}

// What is counted is all that is kept: the room that a long answer grew in is not.
func TestMemoryRoom(t *testing.T) {
	m := newMemory(1 << 20)
	past := chat.Past{Text: strings.Repeat("x", 1000)[:10], Tokens: make([]uint32, 1, 1000), Marks: make([]chat.Mark, 1, 1000)}
	c := &conversation{past: past}
	m.add(nil, dialogue("a", "b"), c)
	require.Less(t, 4*cap(c.past.Tokens)+16*cap(c.past.Marks), c.bytes)
	require.NotSame(t, unsafe.StringData(past.Text), unsafe.StringData(c.past.Text))
}
