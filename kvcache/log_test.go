package kvcache

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/ferrumkv/ferrumkv/kvcache/config"
	"github.com/ferrumkv/ferrumkv/kvcache/prefix"
	"github.com/ferrumkv/ferrumkv/kvcache/tier"
	"github.com/ferrumkv/ferrumkv/kvcache/tier/memory"
	"github.com/stretchr/testify/require"
)

// lines is what was logged. It is safe for concurrent use.
type lines struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *lines) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(b)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// everything is a logger at the lowest level, of texts and of values as Go prints them.
func (l *lines) everything() *slog.Logger {
	return slog.New(slog.NewTextHandler(l, &slog.HandlerOptions{Level: slog.Level(-1000), AddSource: true, ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey || a.Key == slog.SourceKey { // whose digits may be anything
			return slog.Attr{}
		}
		return slog.String(a.Key, fmt.Sprintf("%v %+v %x", a.Value.Any(), a.Value.Any(), a.Value.Any()))
	}}))
}

// teller is a tier whose errors tell keys, and which does as it is told.
type teller struct {
	tier.Tier
	mu   sync.Mutex
	mode string // "", fail, panic, corrupt, count
	keys map[tier.Key]bool
}

func (f *teller) be(mode string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.mode = mode
}

// meet notes keys, and fails with them in the text.
func (f *teller) meet(keys ...tier.Key) (mode string, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, k := range keys {
		f.keys[k] = true
	}
	switch f.mode {
	case "fail":
		err = fmt.Errorf("keys %x: %v", keys, keys)
	case "panic":
		panic(fmt.Sprintf("keys %x", keys))
	}
	return f.mode, err
}

func (f *teller) Has(ctx context.Context, keys []tier.Key) (int, error) {
	if _, err := f.meet(keys...); err != nil {
		return 0, err
	}
	return f.Tier.Has(ctx, keys)
}

func (f *teller) Get(ctx context.Context, blocks []tier.Block) (int, error) {
	mode, err := f.meet(blocks[0].Key, blocks[0].Root)
	if err != nil {
		return 0, err
	}
	n, err := f.Tier.Get(ctx, blocks)
	switch {
	case mode == "count":
		return len(blocks) + 1, nil
	case mode == "corrupt" && n > 0:
		blocks[0].Bytes[0]++
	}
	return n, err
}

func (f *teller) Put(ctx context.Context, blocks []tier.Block) error {
	for _, b := range blocks {
		if _, err := f.meet(b.Key, b.Parent, b.Root); err != nil {
			return err
		}
	}
	return f.Tier.Put(ctx, blocks)
}

func (f *teller) Clear(ctx context.Context, root tier.Key) error {
	if _, err := f.meet(root); err != nil {
		return err
	}
	return f.Tier.Clear(ctx, root)
}

// spellings are how something may stand in a log.
func spellings(b []byte) []string {
	decimal := strings.Trim(fmt.Sprint(b), "[]")
	return []string{string(b), hex.EncodeToString(b), strings.ToUpper(hex.EncodeToString(b)), base64.RawStdEncoding.EncodeToString(b), base64.RawURLEncoding.EncodeToString(b),
		decimal, strings.ReplaceAll(decimal, " ", ", "), fmt.Sprintf("% x", b)}
}

// Whatever happens in a pool with tiers, its log has no token, salt, adapter, secret or key, and has what an operator should know.
func TestLogHasNoSecrets(t *testing.T) {
	impatient(t)
	log, dir := &lines{}, t.TempDir()
	secret := []byte("a secret of 32 bytes, like others")[:32]
	m, err := memory.Open(memory.Options{Name: "far", Bytes: 16 << 20})
	require.NoError(t, err)
	far := &teller{Tier: m, keys: map[tier.Key]bool{}}
	on := config.Tiers{Disk: config.Disk{Dir: dir, Bytes: 4 << 20, Floor: 1}, More: []tier.Tier{far}, Secret: secret}
	scope := prefix.Scope{Salt: []byte("a tenant's own salt"), Adapter: &prefix.Adapter{ID: "an adapter's name", Version: "its version"}}
	r := tiered(t, 12, on, func(c *Config) { c.Logger = log.everything() })

	const token = 3_141_592_653
	prompt := make([]uint32, 23)
	for i := range prompt {
		prompt[i] = token + uint32(i)
	}
	o := OpenOptions{Scope: scope, Items: []prefix.Item{{Begin: 3, End: 5, Hash: []byte("the hash of an image")}}}
	use := func(r *rig[buffer]) {
		r.below(prompt, o)
		x, match := r.read(prompt, o)
		if match.Loading > 0 {
			got, err := x.seq.Wait(context.Background())
			require.NoError(t, err)
			x.arrived(r, got)
		}
		require.NoError(t, r.prefill(r.s, x))
		r.drop(x)
	}
	use(r)
	x, _ := r.read(prompt, o)
	require.NoError(t, r.prefill(r.s, x))
	require.NoError(t, x.seq.Suspend())
	require.NoError(t, x.seq.Resume())
	y, _ := r.read(make([]uint32, 40), OpenOptions{})
	require.ErrorIs(t, r.pool.Reserve(Reservation[buffer]{Seq: x.seq, Tokens: 40}, Reservation[buffer]{Seq: y.seq, Tokens: 40}), ErrOutOfBlocks{})
	require.NoError(t, errors.Join(x.seq.Release(), y.seq.Release()))

	// The disk returns wrong bytes.
	files, err := filepath.Glob(filepath.Join(dir, "*", "data"))
	require.NoError(t, err)
	require.Len(t, files, 1)
	data, err := os.ReadFile(files[0])
	require.NoError(t, err)
	for i := range data {
		data[i] ^= 1
	}
	require.NoError(t, os.WriteFile(files[0], data, 0o600))
	use(r)
	r.close()

	for _, mode := range []string{"corrupt", "count", "fail", "panic"} { // of a tier that sees keys as they are
		far.be("")
		r := tiered(t, 12, config.Tiers{More: []tier.Tier{far}}, func(c *Config) { c.Logger = log.everything() })
		for i := range 5 {
			prompt[22] = token + uint32(100+i)
			far.be("")
			r.below(prompt, o)
			far.be(mode)
			use(r)
		}
		err := r.pool.ClearScope(scope, true)
		require.Equal(t, mode == "fail" || mode == "panic", err != nil)
		r.close()
	}

	text := log.String()
	forbidden := map[string][]byte{"the salt": scope.Salt, "the adapter": []byte(scope.Adapter.ID), "its version": []byte(scope.Adapter.Version), "the secret": secret, "an item": o.Items[0].Hash}
	require.NotEmpty(t, far.keys)
	for k := range far.keys {
		if k != (tier.Key{}) {
			forbidden[fmt.Sprintf("the key %x", k)] = k[:8]
		}
	}
	root := r.pool.model.Root(scope)
	forbidden["the root"], forbidden["the model"] = root.Key[:8], r.pool.model.Content[:8]
	for what, b := range forbidden {
		for _, s := range spellings(b) {
			require.NotContains(t, text, s, what)
		}
	}
	for i := range uint32(200) {
		for _, s := range []string{fmt.Sprint(token + i), fmt.Sprintf("%x", token+i), fmt.Sprintf("%X", token+i)} {
			require.NotContains(t, text, s)
		}
	}
	for _, part := range []string{
		"kvcache: a pool was made", "kvcache: a sequence was opened", "kvcache: a sequence waited for tiers", "kvcache: out of blocks", "kvcache: a sequence was suspended or resumed",
		"kvcache: a disk was opened", "kvcache: a disk returned wrong bytes", "kvcache: a tier returned wrong bytes", "kvcache: a tier failed several times", "kvcache: a call to a tier failed",
		"kvcache: cached prefixes were cleared", "kvcache: Clear failed", "kvcache: a pool was closed",
	} {
		require.Contains(t, text, part)
	}
	require.NoError(t, m.Close())
}

// stalled is a handler that takes nothing until it is released.
type stalled struct {
	slog.Handler
	letGo chan struct{}
	met   atomic.Int64
}

func (s *stalled) Handle(context.Context, slog.Record) error {
	s.met.Add(1)
	<-s.letGo
	return nil
}

// Enabled waits as soon as Handle does, like that of a handler with one lock for both.
func (s *stalled) Enabled(ctx context.Context, level slog.Level) bool {
	if s.met.Load() > 0 {
		<-s.letGo
	}
	return s.Handler.Enabled(ctx, level)
}

// A handler that never returns stops nobody: sequences are opened, computed, suspended and loaded, tiers fail, and the pool is closed.
func TestHandlersThatHangStopNobody(t *testing.T) {
	impatient(t)
	h := &stalled{Handler: slog.NewTextHandler(&lines{}, &slog.HandlerOptions{Level: slog.LevelDebug}), letGo: make(chan struct{})}
	m, err := memory.Open(memory.Options{Name: "far", Bytes: 16 << 20})
	require.NoError(t, err)
	far := &teller{Tier: m, keys: map[tier.Key]bool{}}
	within(t, "a pool", func() {
		r := tiered(t, 12, config.Tiers{More: []tier.Tier{far}}, func(c *Config) { c.Logger = slog.New(h) })
		for i := range 3 {
			prompt := sequence(100*i, 23)
			r.below(prompt, OpenOptions{})
			if i == 1 {
				far.be("corrupt")
			}
			x, match := r.read(prompt, OpenOptions{})
			if match.Loading > 0 {
				x.wait(r)
			}
			require.NoError(t, r.prefill(r.s, x))
			require.NoError(t, x.seq.Suspend())
			require.NoError(t, x.seq.Resume())
			r.drop(x)
		}
		far.be("fail")
		require.Error(t, r.pool.Clear(true))
		far.be("")
		r.close()
	})
	require.Equal(t, int64(1), h.met.Load(), "it has one record, and others wait")
	close(h.letGo)
	require.NoError(t, m.Close())
}
