package kvevents_test

import (
	"testing"

	"github.com/ferrumkv/ferrumkv/kvevents"
	"github.com/stretchr/testify/require"
)

// requireEvent compares events: lists that are empty and lists that are nil are the same, but for ExtraKeys, of which nil is not sent.
func requireEvent(t require.TestingT, want, have kvevents.Event, what ...any) {
	require.Equal(t, tidy(want), tidy(have), what...)
}

// tidy is a copy of an event, in memory of its own.
func tidy(e kvevents.Event) kvevents.Event {
	switch e := e.(type) {
	case *kvevents.Stored:
		c := *e
		c.Hashes, c.Tokens, c.Unknown = append([]kvevents.Hash{}, e.Hashes...), append([]uint32{}, e.Tokens...), append([]kvevents.Field{}, e.Unknown...)
		if e.ExtraKeys != nil {
			c.ExtraKeys = [][]kvevents.Key{}
			for _, keys := range e.ExtraKeys {
				c.ExtraKeys = append(c.ExtraKeys, append([]kvevents.Key{}, keys...))
			}
		}
		return &c
	case *kvevents.Removed:
		c := *e
		c.Hashes, c.Unknown = append([]kvevents.Hash{}, e.Hashes...), append([]kvevents.Field{}, e.Unknown...)
		return &c
	case *kvevents.Cleared:
		c := *e
		c.Unknown = append([]kvevents.Field{}, e.Unknown...)
		return &c
	}
	return e
}

// decode is all events of a payload.
func decode(payload []byte) (events []kvevents.Event, skipped int, err error) {
	var d kvevents.Decoder
	_, err = d.Decode(payload, func(_ kvevents.Batch, e kvevents.Event) error {
		events = append(events, tidy(e))
		return nil
	})
	return events, d.Skipped(), err
}

func mustDecode(t *testing.T, payload []byte) ([]kvevents.Event, int) {
	events, skipped, err := decode(payload)
	require.NoError(t, err)
	return events, skipped
}
