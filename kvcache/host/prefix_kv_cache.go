package host

import (
	"fmt"
	"strconv"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/kvcache/prefix"
)

// PrefixCacheConfig sets the limits of a PrefixKvCache. A field that is 0 has its default; a
// negative one is ErrConfig.
type PrefixCacheConfig struct {
	MaxEntries   int   // entries; 256
	MaxBytes     int64 // of MemoryUsage; 512 MiB
	MinPrefixLen int   // tokens: fewer are neither stored nor found; 4
	BlockSize    int   // tokens that are shared or evicted together, 2^24 at most; 16
}

// Defaults of PrefixCacheConfig.
const (
	DefaultPrefixEntries = 256
	DefaultPrefixBytes   = 512 << 20
	DefaultMinPrefixLen  = 4
)

// PrefixKvCache keeps the keys and values of prompts in host memory, for runners that compute
// attention themselves: a prompt that begins like an earlier one restores what is known and
// computes the rest. A kvcache.Pool does the same in device memory, without copies.
//
// # Entries
//
// Prompts are stored in a radix tree of blocks (package prefix). Prompts with the same beginning
// share its full blocks; a last block that is not full belongs to one prompt. An entry is a stored
// prompt that is not the beginning of another one: storing the beginning of an entry adds nothing,
// and a longer prompt replaces the one that it begins with. Every beginning of an entry is found,
// to the token.
//
// Within MaxEntries and MaxBytes, what was least recently stored or found is evicted first, in
// blocks from the ends of entries: an entry becomes shorter before it is gone, and a common
// beginning is evicted after all its prompts. An eviction takes constant time.
//
// # Scopes
//
// A cache belongs to one model. Adapters of the model and tenants each have their part of the
// cache, see Scoped. The first prompt that is stored fixes the number of layers and the dim;
// prompts of another shape are refused until Clear.
//
// A PrefixKvCache is safe for concurrent use. The runner's caches are read and written without
// holding its lock.
type PrefixKvCache[T Element] struct {
	store *prefixStore[T]
	root  prefix.Root
}

// hostModel is the fingerprint of a cache that serves one model only, and of which no key is
// told.
var hostModel = prefix.Fingerprint{Group: prefix.AllLayers}

// NewPrefixKvCache returns an empty cache. ErrConfig for an invalid limit.
func NewPrefixKvCache[T Element](cfg PrefixCacheConfig) (*PrefixKvCache[T], error) {
	for _, f := range [...]struct {
		name string
		have int64
	}{
		{"MaxEntries", int64(cfg.MaxEntries)}, {"MaxBytes", cfg.MaxBytes},
		{"MinPrefixLen", int64(cfg.MinPrefixLen)}, {"BlockSize", int64(cfg.BlockSize)},
	} {
		if f.have < 0 || f.name == "BlockSize" && f.have > 1<<24 {
			return nil, backend.ErrConfig{Package: "host", Name: "PrefixCacheConfig." + f.name, Value: strconv.FormatInt(f.have, 10), Why: "accepts 0 for its default, or more; blocks of at most 2^24 tokens"}
		}
	}
	if cfg.MaxEntries == 0 {
		cfg.MaxEntries = DefaultPrefixEntries
	}
	if cfg.MaxBytes == 0 {
		cfg.MaxBytes = DefaultPrefixBytes
	}
	if cfg.MinPrefixLen == 0 {
		cfg.MinPrefixLen = DefaultMinPrefixLen
	}
	if cfg.BlockSize == 0 {
		cfg.BlockSize = DefaultPagedBlockSize
	}
	s := &prefixStore[T]{cfg: cfg}
	if err := s.reset(); err != nil {
		return nil, err
	}
	return &PrefixKvCache[T]{s, hostModel.Root(prefix.Scope{})}, nil
}

// Scoped is a view of the cache for an adapter or a tenant: what is stored in a scope is found in
// that scope only. Limits, Len, MemoryUsage, the counters and Clear concern the whole cache.
// NewPrefixKvCache returns the view of the zero Scope.
func (c *PrefixKvCache[T]) Scoped(scope prefix.Scope) *PrefixKvCache[T] {
	return &PrefixKvCache[T]{c.store, hostModel.Root(scope)}
}

// Lookup finds the longest known beginning of tokens, of MinPrefixLen tokens or more; matched is
// its length, and that of state. It counts as a use of what it finds, and as a hit or a miss.
//
// A runner that needs the logits of the last token looks up all tokens but that one.
func (c *PrefixKvCache[T]) Lookup(tokens []uint32) (matched int, state *CachedKvState[T], ok bool) {
	if c.store == nil {
		return 0, nil, false
	}
	state = c.store.lookup(c.root, tokens)
	if state == nil {
		return 0, nil, false
	}
	return state.length, state, true
}

// Store copies the keys and values of a prompt that are not known yet from a runner's cache, whose
// first len(tokens) tokens they are; it ignores the tokens that follow, such as generated ones. A
// prompt shorter than MinPrefixLen is not stored, without an error. For a prompt that is known
// already stored is true, too.
//
// An error of from is returned. ErrArgument when from has too few tokens, or other layers or dims than
// the prompts stored before; ErrOversize when the prompt alone exceeds MaxBytes. After an error
// nothing was stored and nothing evicted.
func (c *PrefixKvCache[T]) Store(tokens []uint32, from KvCacheAccess[T]) (stored bool, err error) {
	if c.store == nil {
		return false, errNoCache("store")
	}
	shape, err := shapeOf("store", from)
	if err != nil {
		return false, err
	}
	if have := from.Len(); have < len(tokens) {
		return false, backend.ErrArgument{Package: "host", Op: "store", What: fmt.Sprintf("the cache has %d tokens for a prompt of %d", have, len(tokens))}
	}
	if len(tokens) < c.store.cfg.MinPrefixLen {
		return false, nil
	}
	known, err := c.store.known(c.root, tokens, shape)
	if err != nil {
		return false, err
	}
	return c.add("store", tokens, from, known)
}

// StoreSnapshot is Store of a state: one that Lookup of this or another cache returned, or a new
// one. ErrArgument unless it has exactly len(tokens) tokens. Blocks of the cache's block size are
// shared with the state, others copied.
func (c *PrefixKvCache[T]) StoreSnapshot(tokens []uint32, state *CachedKvState[T]) (stored bool, err error) {
	switch {
	case c.store == nil:
		return false, errNoCache("store snapshot")
	case state == nil:
		return false, backend.ErrArgument{Package: "host", Op: "store snapshot", What: "the state is nil"}
	case state.length != len(tokens):
		return false, backend.ErrArgument{Package: "host", Op: "store snapshot", What: fmt.Sprintf("a state of %d tokens for a prompt of %d", state.length, len(tokens))}
	case len(tokens) < c.store.cfg.MinPrefixLen:
		return false, nil
	}
	if err := c.store.fits(tokens, state.shape); err != nil {
		return false, err
	}
	var known [][]T
	if state.blockSize == c.store.cfg.BlockSize {
		known = state.blocks
	}
	return c.add("store snapshot", tokens, state, known)
}

// errNoCache is an error of the zero PrefixKvCache.
func errNoCache(op string) error {
	return fmt.Errorf("host: %s: a cache that was not made by NewPrefixKvCache: %w", op, backend.ErrClosed)
}

// add stores a prompt whose first blocks are known.
func (c *PrefixKvCache[T]) add(op string, tokens []uint32, from KvCacheAccess[T], known [][]T) (bool, error) {
	state, err := newState(op, from, len(tokens), c.store.cfg.BlockSize, known)
	if err == nil {
		err = c.store.insert(c.root, tokens, state)
	}
	return err == nil, err
}

// Restore replaces the content of a runner's cache by a state. ErrArgument, before anything is
// written, when layers or dims differ. Errors of target.Load are returned. The cache itself is not
// involved.
func (*PrefixKvCache[T]) Restore(state *CachedKvState[T], target KvCacheTarget[T]) error {
	if err := sameShape("restore", state, target); err != nil {
		return err
	}
	if err := target.Load(state); err != nil {
		return fmt.Errorf("host: restore: %w", err)
	}
	if have := target.Len(); have != state.length {
		return backend.ErrArgument{Package: "host", Op: "restore", What: fmt.Sprintf("the target has %d tokens after it loaded %d", have, state.length)}
	}
	return nil
}

// MemoryUsage is the bytes that the cache takes: keys and values, tokens, and its tree. Blocks that
// entries share count once; blocks that only states outside of the cache have do not count. An
// empty cache takes 0.
func (c *PrefixKvCache[T]) MemoryUsage() int64 {
	if c.store == nil {
		return 0
	}
	c.store.mu.Lock()
	defer c.store.mu.Unlock()
	return c.store.usage()
}

// Len is the number of entries.
func (c *PrefixKvCache[T]) Len() int {
	if c.store == nil {
		return 0
	}
	c.store.mu.Lock()
	defer c.store.mu.Unlock()
	return c.store.entries
}

// IsEmpty reports whether Len is 0.
func (c *PrefixKvCache[T]) IsEmpty() bool { return c.Len() == 0 }

// Hits is the number of lookups that found something.
func (c *PrefixKvCache[T]) Hits() uint64 {
	if c.store == nil {
		return 0
	}
	c.store.mu.Lock()
	defer c.store.mu.Unlock()
	return c.store.hits
}

// Misses is the number of lookups that found nothing.
func (c *PrefixKvCache[T]) Misses() uint64 {
	if c.store == nil {
		return 0
	}
	c.store.mu.Lock()
	defer c.store.mu.Unlock()
	return c.store.misses
}

// Clear removes all entries of all scopes, the shape and the counters. States that were returned
// stay valid.
func (c *PrefixKvCache[T]) Clear() {
	if c.store == nil {
		return
	}
	c.store.mu.Lock()
	defer c.store.mu.Unlock()
	_ = c.store.reset() // it worked in NewPrefixKvCache
	c.store.shape, c.store.hits, c.store.misses = kvShape{}, 0, 0
}
