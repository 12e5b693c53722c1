package main

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/cmd/internal/runner"
	"github.com/ferrumkv/ferrumkv/kvcache"
	"github.com/ferrumkv/ferrumkv/kvcache/config"
	modeldata "github.com/ferrumkv/ferrumkv/testdata/model"
)

// cacheStatus is the configuration that a program would get.
type cacheStatus struct {
	Model         string          `json:"model"`
	Error         string          `json:"error,omitempty"`
	Settings      []settingStatus `json:"settings,omitempty"`
	BytesPerToken int64           `json:"bytes_per_token,omitempty"`
	Bytes         int64           `json:"bytes,omitempty"`
	Room          *roomStatus     `json:"room,omitempty"` // nil: the device does not say what memory it has
	// ByType is the bytes of a token in the types that the device has, all scales included;
	// those of int4channel, one for each channel of a block, as a share.
	ByType []typeStatus `json:"bytes_by_type,omitempty"`
	// NoHostTier is why the device has no tier of host memory; empty: it may have one.
	NoHostTier string `json:"no_host_tier,omitempty"`
	// Groups are the kinds of layers, where not all are alike.
	Groups []config.GroupSize `json:"groups,omitempty"`
	// Layers are what the layers of a model see, with --model.
	Layers []layersStatus `json:"layers,omitempty"`
	// Context is the tokens that the model was made for, with --model; 0: unknown.
	Context int `json:"context,omitempty"`
	// NotRun is why generate does not run the model, each with what to do, as far as that is known.
	NotRun []string `json:"not_run,omitempty"`

	blockTokens int // of blocks of the paged layout
	blockBytes  int64
	weights     int64 // bytes of the model's; 0: unknown
	named       bool  // the model is that of --model
}

// roomStatus is what a device's memory holds beside a model's weights.
type roomStatus struct {
	Sequences int   `json:"sequences"` // of full capacity
	Capacity  int   `json:"capacity"`  // tokens of each
	Bytes     int64 `json:"bytes"`
	Weights   int64 `json:"weights,omitempty"` // bytes, which are not in Bytes; 0: unknown
}

// line says for people what there is room for.
func (r *roomStatus) line() string {
	of := ", less the model's weights, whose size is not known"
	if r.Weights > 0 {
		of = " after " + byteSize(r.Weights) + " of weights"
	}
	return fmt.Sprintf("%s of %s in %s%s", count(r.Sequences, "sequence"), count(r.Capacity, "token"), byteSize(r.Bytes), of)
}

type typeStatus struct {
	Type          string `json:"type"`
	BytesPerToken int64  `json:"bytes_per_token"`
}

type settingStatus struct {
	Name     string `json:"name"`
	Value    any    `json:"value"` // a string, or a json.Number
	Source   string `json:"source"`
	Variable string `json:"variable,omitempty"`
}

// on opens the device that the flags name and configures a cache for it.
func (s *cacheStatus) on(f doctorFlags, given func(flag string) bool) (problems []error, err error) {
	be, err := deviceFlags{backend: f.backend}.open()
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, be.Close()) }()
	return s.configure(given, f, be)
}

// configure resolves what the flags leave open, and finds what keeps the device
// from holding the result.
func (s *cacheStatus) configure(given func(flag string) bool, f doctorFlags, be anyBackend) (problems []error, err error) {
	if f.file != "" {
		return s.read(given, f.file, be)
	}
	cfg, err := f.cache.config()
	if err == nil {
		err = f.tiers.config(&cfg)
	}
	if err == nil {
		err = f.room.check()
	}
	if err != nil {
		return nil, err
	}
	if f.room.context > 0 {
		f.room.size(&cfg, 1, 0, 0) // as generate does for one text
	}
	var context int
	var byModel []string // settings that it decides
	layout := cfg.Memory.Layout
	if f.model != "" {
		context, err = s.ofModel(given, f.model, &cfg)
	} else {
		context, err = s.shape(given, f, &cfg)
	}
	if err != nil {
		return nil, err
	}
	kv, unheld := f.cache.kvType(be)
	switch {
	case kv == backend.Invalid && unheld != nil:
		return nil, unheld
	case unheld != nil:
		problems = append(problems, unheld)
	}
	if f.cache.kvDType != "" {
		cfg.Storage.K = kv
	}
	env, err := config.ParseEnvironment(os.LookupEnv)
	if err != nil {
		return nil, err
	}
	if context > 0 && f.room.context > context {
		return nil, fmt.Errorf("--context %d: the model was made for %d tokens", f.room.context, context)
	}
	if context > 0 && f.room.context == 0 && cmp.Or(env.Capacity, config.DefaultCapacity) > context {
		cfg.Memory.Capacity, byModel = context, append(byModel, "capacity") // as generate does
	}
	if cfg.Memory.Layout != layout {
		byModel = append(byModel, "layout")
	}
	if f.model != "" {
		byModel = append(byModel, "activation type", "value head dim", "scale")
	}
	cfg.Model.Digest = []byte("of weights") // which its runner knows, and tiers that outlive it need
	if cfg, err = cfg.ResolveWith(env); err == nil {
		cfg, err = cfg.Within(be.Info().FreeMemory)
	}
	if err != nil {
		return nil, asFlag(err)
	}
	return s.tell(problems, cfg, byModel, be)
}

// read resolves the configuration that is in a file.
func (s *cacheStatus) read(given func(flag string) bool, file string, be anyBackend) ([]error, error) {
	for _, flag := range [...]string{"layers", "q-heads", "kv-heads", "head-dim", "layout", "block-size", "prefix", "kv-dtype", "residual", "hadamard", "host-bytes", "context"} {
		if given(flag) {
			return nil, fmt.Errorf("--%s cannot be used with --config: set it in the file", flag)
		}
	}
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("--config: %w", err)
	}
	cfg, err := config.Parse(data)
	if err == nil {
		cfg, err = cfg.Within(be.Info().FreeMemory)
	}
	if err != nil {
		return nil, fmt.Errorf("--config %s: %w", file, err)
	}
	s.Model = count(cfg.Model.Layers, "layer") + " of " + file
	return s.tell(nil, cfg, nil, be)
}

// tell lists what a configuration became, and what keeps the device from holding it.
func (s *cacheStatus) tell(problems []error, cfg kvcache.Config, byModel []string, be anyBackend) (_ []error, err error) {
	for _, set := range cfg.Settings() {
		source := set.Source.String()
		switch {
		case set.Name == queryHeads: // listed with the shape
			continue
		case set.Name == "V type" && onePlane(&cfg.Model):
			continue
		case slices.Contains(byModel, set.Name) && set.Source == config.FromOption:
			source = fromModel
		case set.Name == "layout" && set.Source == config.FromDefault && cfg.Tiers.Any():
			source = fromTiers
		}
		s.Settings = append(s.Settings, settingStatus{set.Name, numberOr(set.Value), source, set.Variable})
	}
	for _, i := range cfg.Ignored() {
		s.Settings = append(s.Settings, settingStatus{"ignored", i.Value + ": " + i.Why, config.FromEnvironment.String(), i.Variable})
	}
	if s.BytesPerToken, err = cfg.BytesPerToken(); err != nil {
		return nil, err
	}
	if s.Bytes, err = cfg.Bytes(); err != nil {
		return nil, err
	}
	s.blockTokens, s.blockBytes = inBlocks(&cfg, s.BytesPerToken)
	s.ByType = byType(cfg, be.Caps())
	if s.Groups, err = cfg.GroupSizes(); err != nil {
		return nil, err
	}
	if free := be.Info().FreeMemory; free > 0 {
		if s.Room, err = roomFor(cfg, s.Groups, max(free-s.weights, 0)); err != nil {
			return nil, err
		}
		s.Room.Weights = s.weights
	}
	var none backend.ErrUnsupported
	if errors.As(kvcache.HostTier(be.Info()), &none) {
		if s.NoHostTier = none.Why; cfg.Tiers.HostBytes != 0 {
			problems = append(problems, fmt.Errorf("no tier of host memory on %s: %s", be.Info().Name, flagsOf.Replace(none.Why)))
		}
	}
	var size kvcache.ErrPoolSize
	if info := be.Info(); errors.As(cfg.Fits(info.FreeMemory, be.Caps()), &size) {
		problems = append(problems, tooLarge(size, info.Name))
	}
	return problems, nil
}

// roomFor is how many sequences of full capacity fit free bytes.
func roomFor(cfg kvcache.Config, groups []config.GroupSize, free int64) (*roomStatus, error) {
	blocks, err := cfg.BlocksFor(free)
	each := 0 // blocks of a sequence
	for _, g := range groups {
		each += g.Blocks
	}
	if each == 0 && cfg.Memory.Layout == kvcache.Paged {
		each = (cfg.Memory.Capacity-1)/cfg.Memory.BlockSize + 1
	}
	return &roomStatus{Sequences: blocks / max(each, 1), Capacity: cfg.Memory.Capacity, Bytes: free}, err
}

// byType is what a token takes in each type, of those that go with the rest of cfg.
func byType(cfg kvcache.Config, caps backend.Caps) (all []typeStatus) {
	for _, name := range heldTypes(caps) {
		c := cfg
		c.Storage.K, _ = backend.ParseDType(name) // it is the name of one
		c.Storage.V = c.Storage.K.Coding().Values
		if c.Storage.K.Coding().Scope == backend.ByChannel {
			c.Storage.Residual = max(c.Storage.Residual, 1)
		}
		if !c.Storage.K.Quantized() {
			c.Storage.Hadamard, c.Storage.Residual, c.Memory.StepTokens = false, 0, 0
		}
		if bytes, err := c.BytesPerToken(); err == nil {
			all = append(all, typeStatus{name, bytes})
		}
	}
	return all
}

// tooLarge says what of a cache does not fit a device, and how much would.
func tooLarge(size kvcache.ErrPoolSize, device string) error {
	what, limit, part := "the cache", "memory", "block"
	if size.Layer {
		what, limit = "a layer's buffer", "largest buffer"
	}
	if size.Contiguous {
		part = "sequence"
	}
	return fmt.Errorf("%s of %s does not fit the %s of %s, %s: at most %d of %s; %s",
		what, byteSize(size.Bytes), limit, device, byteSize(size.Max), size.MaxBlocks, count(size.Blocks, part), lowerSize)
}

// queryHeads is what the library calls the only part of the shape that it has a default for.
const queryHeads = "query heads"

// Sources of what the model sets, and of the layout that tiers need.
const fromModel, fromTiers = "model", "tiers"

// shape lists the model's shape and puts it into cfg: what no flag gives is that
// of the embedded model. It returns the tokens that the model was made for, 0 where
// flags make it another one.
func (s *cacheStatus) shape(given func(flag string) bool, f doctorFlags, cfg *kvcache.Config) (context int, err error) {
	m, _, err := runner.LoadFS(modeldata.Files, ".")
	if err != nil {
		return 0, err
	}
	context, s.weights = m.Context, int64(m.Size)
	for _, part := range []struct {
		name, flag   string
		to           *int
		asked, model int
	}{
		{"layers", "layers", &cfg.Model.Layers, f.layers, len(m.Layers)},
		{queryHeads, "q-heads", &cfg.Model.QHeads, f.qHeads, m.Heads},
		{"KV heads", "kv-heads", &cfg.Model.KVHeads, f.kvHeads, m.KVHeads},
		{"head dim", "head-dim", &cfg.Model.HeadDim, f.headDim, m.HeadDim},
	} {
		*part.to = part.model
		source := fromModel
		if given(part.flag) {
			if part.asked < 1 || part.asked > math.MaxInt32 {
				return 0, fmt.Errorf("--%s %d: accepts 1 to %d", part.flag, part.asked, math.MaxInt32)
			}
			*part.to, source, context = part.asked, config.FromOption.String(), 0
			s.weights = 0
		}
		s.Settings = append(s.Settings, settingStatus{Name: part.name, Value: numberOr(strconv.Itoa(*part.to)), Source: source})
	}
	if cfg.Model.QHeads%cfg.Model.KVHeads != 0 {
		return 0, fmt.Errorf("--q-heads %d: must be a multiple of --kv-heads %d", cfg.Model.QHeads, cfg.Model.KVHeads)
	}
	s.Model = fmt.Sprintf("%s, %s, %s of %d", count(cfg.Model.Layers, "layer"), count(cfg.Model.QHeads, "query head"), count(cfg.Model.KVHeads, "KV head"), cfg.Model.HeadDim)
	return context, nil
}

// numberOr is value as the number that it is in JSON, or else as it is.
func numberOr(value string) any {
	if _, err := strconv.ParseFloat(value, 64); err != nil {
		return value
	}
	return json.Number(value)
}

func (c cacheStatus) write(w *strings.Builder) {
	heading := "\ncache"
	if c.Model != "" {
		heading += ", for " + c.Model
	}
	fmt.Fprintln(w, heading)
	for _, s := range c.Settings {
		line := fmt.Sprintf("  %-16s %-11s %-12s %s", s.Name, s.Value, s.Source, s.Variable)
		fmt.Fprintln(w, strings.TrimRight(line, " "))
	}
	fmt.Fprintf(w, "  %-16s %s\n  %-16s %s\n", "bytes of a token", byteSize(c.BytesPerToken), "bytes of all", byteSize(c.Bytes))
	if r := c.Room; r != nil {
		fmt.Fprintf(w, "  %-16s %s\n", "room", r.line())
	}
	types := make([]string, len(c.ByType))
	for i, t := range c.ByType {
		types[i] = fmt.Sprintf("%s %d", t.Type, t.BytesPerToken)
	}
	fmt.Fprintln(w, wrapped(fmt.Sprintf("  %-16s ", "bytes by type"), types, 19))
	if c.NoHostTier != "" {
		fmt.Fprintf(w, "  %-16s none: %s\n", "host tier", c.NoHostTier)
	}
	for _, g := range c.Groups {
		fmt.Fprintf(w, "  %-16s %s\n", "group", describe(g))
	}
	for _, l := range c.Layers {
		label := "layers " + l.Layers
		if len(label) > 16 {
			fmt.Fprintf(w, "  %s\n", label)
			label = ""
		}
		fmt.Fprintf(w, "  %-16s %s\n", label, l.line())
	}
	if c.named && len(c.NotRun) == 0 {
		fmt.Fprintf(w, "  %-16s as far as the headers of its files say\n", "runs")
	}
	for _, why := range c.NotRun {
		fmt.Fprintf(w, "  %-16s %s\n", "does not run", why)
	}
}

// describe says what a group is like.
func describe(g config.GroupSize) string {
	of := fmt.Sprintf("blocks of %s", count(g.BlockTokens, "token"))
	if g.BlockTokens == 0 {
		of = "one block for a state"
	}
	return fmt.Sprintf("%v: %s in %s, %s, %s for a sequence of full capacity, %.1f %% unused", g.Kind, count(g.Layers, "layer"), count(g.Parts, "part"), of, count(g.Blocks, "block"), 100*g.Unused)
}
