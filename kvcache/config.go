package kvcache

import "github.com/ferrumkv/ferrumkv/kvcache/config"

// Names of package config that nearly every program needs.
type (
	// Config describes a model's keys and values and how to hold them.
	// Fields: go doc github.com/ferrumkv/ferrumkv/kvcache/config.Config
	Config = config.Config
	// Model describes a model's attention layers.
	Model = config.Model
	// Storage is how keys and values are stored.
	// Fields: go doc github.com/ferrumkv/ferrumkv/kvcache/config.Storage
	Storage = config.Storage
	// Memory is how much of a device the cache takes, and how it is divided.
	// Fields: go doc github.com/ferrumkv/ferrumkv/kvcache/config.Memory
	Memory = config.Memory
	// Attention is how attention is computed, and whether attention scores are kept.
	Attention = config.Attention
	// Layout is how a sequence's tokens lie in memory.
	Layout = config.Layout
	// Mask says which keys the queries of a layer see and how their logits are changed.
	Mask = config.Mask
	// ErrPoolSize is a pool that is too large for its device, found before anything was allocated.
	ErrPoolSize = config.ErrPoolSize
)

// Layouts.
const (
	LayoutUnset = config.LayoutUnset // FERRUM_METAL_PAGED_KV chooses
	Contiguous  = config.Contiguous  // one array [heads, capacity, dim] for each sequence
	Paged       = config.Paged       // blocks [heads, block size, dim], taken on demand
)

// ParseConfig reads a Config from JSON; see config.Parse.
func ParseConfig(data []byte) (Config, error) { return config.Parse(data) }
