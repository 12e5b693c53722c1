package bench

import (
	"errors"
	"fmt"

	"github.com/ferrumkv/ferrumkv/backend"
)

// measureHost times one copy between the device and pinned memory of the host, in each direction.
func (g *GPU[B]) measureHost(mem *memory[B]) error {
	if g.Host == nil {
		return nil
	}
	buf := mem.filled(backend.F32, g.size(1<<24, 1<<10))
	if mem.err != nil {
		return mem.err
	}
	host, err := mem.host(buf.Bytes())
	if err != nil || !host.Pinned() {
		return err // without pinned memory there is no such limit
	}
	for _, l := range []struct {
		name   string
		of     bound
		toHost bool
	}{{"to-host", toHost, true}, {"to-device", toDevice, false}} {
		found, err := g.limit(l.name, work{bytes: float64(buf.Bytes()), bound: l.of}, func() error { return g.Host(buf, host, l.toHost) })
		if err != nil {
			return err
		}
		g.limits.host = append(g.limits.host, found)
	}
	return nil
}

// hosted is blocks of all layers of a model that go to the host and come back: of 2 MiB in 64 planes.
func (g *GPU[B]) hosted() (all []*GPUTrial[B]) {
	if g.Host == nil {
		return nil
	}
	const planes = 2 * 32
	of := layer{llama, backend.F16, g.size(256, 8) * blockSize, blockSize}
	bytes := planes * of.elements(backend.F16) / of.blocks()
	for _, n := range []int{1, 8} {
		for _, t := range []struct {
			name string
			of   bound
		}{{"pack", toHost}, {"unpack", toDevice}} {
			all = append(all, &GPUTrial[B]{Name: fmt.Sprintf("%s/f16/blocks=%d", t.name, n), gpu: g, work: work{bytes: float64(n * bytes), bound: t.of},
				set: func(m *memory[B], _ source[B]) (*operation, error) {
					return carries(m, of, planes, n, t.of == toDevice)
				}})
		}
	}
	return all
}

// carries moves n blocks of some planes in a call, each time others, and other memory of the host, which no cache holds.
func carries[B backend.Buffer](m *memory[B], of layer, planes, n int, back bool) (*operation, error) {
	const places = 4
	var all []backend.BlockPlane[B]
	for range planes {
		all = append(all, backend.BlockPlane[B]{Buf: m.filled(of.keys, of.slots*of.width()), Each: of.block * of.width()})
	}
	if m.err != nil {
		return nil, m.err
	}
	set, err := backend.NewBlockSet(m.be, all)
	if err != nil {
		return nil, err
	}
	m.closes = append(m.closes, set.Close)
	one := int64(n) * set.BlockBytes()
	host, err := m.host(places * one)
	if err != nil {
		return nil, err
	}
	list := shuffled(of.blocks())
	move := set.Pack
	if back {
		move = set.Unpack
	}
	return &operation{call: func(turn int) error {
		first := turn * n % len(list)
		return move(m.stream, list[first:first+n], host, int64(turn%places)*one)
	}}, nil
}

// host is memory of the host, given back with the rest.
func (m *memory[B]) host(bytes int64) (backend.HostMemory, error) {
	h, err := backend.HostAlloc(m.be, bytes)
	if err == nil {
		m.closes = append(m.closes, h.Close)
	}
	return h, errors.Join(m.err, err)
}
