package replay

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
)

// mooncakeTokens is the block size of Mooncake's traces, which do not say it.
const mooncakeTokens = 512

var mooncakeMembers = []string{"timestamp", "input_length", "output_length", "hash_ids"}

// mooncakeLine is a request as published with Mooncake (Qin et al., FAST 2025).
// Other members of the object are ignored.
type mooncakeLine struct {
	Timestamp    *float64 `json:"timestamp"` // milliseconds
	InputLength  *int64   `json:"input_length"`
	OutputLength *int64   `json:"output_length"`
	HashIDs      []uint64 `json:"hash_ids"`
}

func (l mooncakeLine) check() error {
	if err := present("timestamp", l.Timestamp); err != nil {
		return err
	}
	if err := present("input_length", l.InputLength); err != nil {
		return err
	}
	if err := present("output_length", l.OutputLength); err != nil {
		return err
	}
	if l.HashIDs == nil {
		return faulty{"hash_ids", "is missing"}
	}
	return nil
}

// readMooncake reads one request a line. Blank lines are skipped.
func readMooncake(ctx context.Context, b *builder, file string, r *bufio.Reader) error {
	if err := b.useBlocks(mooncakeTokens); err != nil {
		return err
	}
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, maxLine)
	n := 0
	for lines.Scan() {
		n++
		if n%checkEvery == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		if err := addMooncake(b, lines.Bytes()); err != nil {
			return at(file, fmt.Sprintf("line %d", n), err)
		}
	}
	if errors.Is(lines.Err(), bufio.ErrTooLong) {
		return at(file, fmt.Sprintf("line %d", n+1), fmt.Errorf("is longer than %d bytes", maxLine))
	}
	return lines.Err()
}

func addMooncake(b *builder, text []byte) error {
	if len(bytes.TrimSpace(text)) == 0 {
		return nil
	}
	var l mooncakeLine
	if err := json.Unmarshal(text, &l); err != nil {
		return err
	}
	if err := l.check(); err != nil {
		return err
	}
	if err := b.add(*l.Timestamp/1000, l.HashIDs); err != nil {
		return err
	}
	b.fills(*l.InputLength / mooncakeTokens)
	b.lengths(*l.InputLength, *l.OutputLength)
	return nil
}
