package replay

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
)

// maxNesting is the most levels of sub-agents.
const maxNesting = 16

var agenticMembers = []string{"block_size", "requests"}

// agenticSession is a file of kv-cache-tester's traces: the requests of a coding
// assistant at work. Other members of the objects are ignored.
type agenticSession struct {
	BlockSize *int64            `json:"block_size"` // tokens
	Scope     string            `json:"hash_id_scope"`
	Requests  []json.RawMessage `json:"requests"`
}

// agenticEntry is a request or, where it has requests of its own, a sub-agent.
type agenticEntry struct {
	T       *float64 `json:"t"` // seconds; of a sub-agent its end
	In      *int64   `json:"in"`
	Out     int64    `json:"out"`
	HashIDs []uint64 `json:"hash_ids"` // of the full blocks only

	Requests   []json.RawMessage `json:"requests"` // their times begin with the sub-agent
	DurationMS *float64          `json:"duration_ms"`
}

// readAgentic reads a session, which is one JSON value. It is read entry by
// entry, so that an error can say which one it is.
func readAgentic(ctx context.Context, b *builder, file string, r *bufio.Reader) error {
	data, err := io.ReadAll(io.LimitReader(r, maxFile+1))
	switch {
	case err != nil:
		return err
	case len(data) > maxFile:
		return fmt.Errorf("is larger than %d bytes", maxFile)
	}
	var s agenticSession
	if err := json.Unmarshal(data, &s); err != nil {
		return err
	}
	const maxBlock = 1 << 30
	switch {
	case s.BlockSize == nil:
		return faulty{"block_size", "is missing"}
	case *s.BlockSize < 1 || *s.BlockSize > maxBlock:
		return faulty{"block_size", fmt.Sprintf("have %d, accepts 1 to %d", *s.BlockSize, maxBlock)}
	case s.Scope != "" && s.Scope != "local":
		return faulty{"hash_id_scope", fmt.Sprintf("have %q, accepts local: ids of one file mean nothing in another", s.Scope)}
	case s.Requests == nil:
		return faulty{"requests", "is missing"}
	}
	if err := b.useBlocks(int(*s.BlockSize)); err != nil {
		return err
	}
	a := agent{ctx: ctx, b: b, file: file, place: "request "}
	return a.read(s.Requests)
}

// agent reads the requests of the session or of one of its sub-agents.
type agent struct {
	ctx   context.Context
	b     *builder
	file  string
	place string  // what stands before the number of an entry
	start float64 // seconds
	depth int
}

func (a agent) read(entries []json.RawMessage) error {
	for i, text := range entries {
		if err := a.ctx.Err(); err != nil {
			return err
		}
		place := fmt.Sprintf("%s%d", a.place, i+1)
		if err := a.entry(place, text); err != nil {
			return at(a.file, place, err)
		}
	}
	return nil
}

func (a agent) entry(place string, text []byte) error {
	var e agenticEntry
	if err := json.Unmarshal(text, &e); err != nil {
		return err
	}
	if err := present("t", e.T); err != nil {
		return err
	}
	switch {
	case e.Requests != nil && e.HashIDs != nil:
		return faulty{"requests", "a request has hash_ids, a sub-agent has requests; this has both"}
	case e.Requests != nil:
		return a.subAgent(place, e)
	case e.HashIDs == nil:
		return faulty{"hash_ids", "is missing"}
	}
	if err := present("in", e.In); err != nil {
		return err
	}
	if err := present("out", &e.Out); err != nil {
		return err
	}
	if err := a.b.add(a.start+*e.T, e.HashIDs); err != nil {
		return err
	}
	a.b.lengths(*e.In, e.Out)
	return nil
}

// subAgent reads a sub-agent's requests. Its entry is written when it ends, with
// how long it ran; without that its requests count from there.
func (a agent) subAgent(place string, e agenticEntry) error {
	if a.depth == maxNesting {
		return faulty{"requests", fmt.Sprintf("sub-agents are nested more than %d levels deep", maxNesting)}
	}
	a.start += *e.T
	if e.DurationMS != nil {
		if err := present("duration_ms", e.DurationMS); err != nil {
			return err
		}
		a.start -= *e.DurationMS / 1000
	}
	a.place = place + "."
	a.depth++
	return a.read(e.Requests)
}
