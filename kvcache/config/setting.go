package config

import (
	"fmt"
	"strings"
)

// Source is where a setting's value came from.
type Source uint8

const (
	FromDefault Source = iota
	FromEnvironment
	FromOption // the caller's Config
)

func (s Source) String() string {
	return [...]string{"default", "environment", "option"}[min(s, FromOption)]
}

// Setting is one line of a resolved configuration.
type Setting struct {
	Name, Value string
	Variable    string // the environment variable that can set it; empty if none
	Source      Source
}

type setting int

const (
	setLayout setting = iota
	setCapacity
	setMaxSeqs
	setBlocks
	setBlockSize
	setK
	setV
	setAct
	setQHeads
	setVHeadDim
	setScale
	setPrefix
	setHostBytes
	setDiskDir
	setDiskBytes
	numSettings
)

// Settings lists those values of a resolved configuration that have a default,
// and where each came from.
func (c Config) Settings() []Setting {
	row := func(s setting, name, variable string, value any) Setting {
		return Setting{Name: name, Value: fmt.Sprint(value), Variable: variable, Source: c.sources[s]}
	}
	out := []Setting{
		row(setLayout, "layout", EnvPaged, c.Memory.Layout),
		row(setCapacity, "capacity", EnvCapacity, c.Memory.Capacity),
		row(setMaxSeqs, "max sequences", EnvMaxSeqs, c.Memory.MaxSeqs),
		row(setBlocks, "blocks", "", c.Memory.Blocks),
		row(setK, "K type", EnvDType, c.Storage.K),
		row(setV, "V type", EnvDType, c.Storage.V),
		row(setAct, "activation type", "", c.Model.Act),
		row(setQHeads, "query heads", "", c.Model.QHeads),
		row(setVHeadDim, "value head dim", "", c.Model.VHeadDim),
		row(setScale, "scale", "", c.Model.Scale),
	}
	if c.Memory.Layout == Paged {
		out[3].Variable = EnvMaxBlocks
		out = append(out, row(setBlockSize, "block size", "", c.Memory.BlockSize), row(setPrefix, "prefix reuse", EnvPrefix, c.Memory.Prefix))
	}
	if t := &c.Tiers; t.HostBytes != 0 {
		out = append(out, row(setHostBytes, "host memory", EnvHostBytes, t.HostBytes))
	}
	if d := &c.Tiers.Disk; d.Dir != "" {
		out = append(out, row(setDiskDir, "disk", EnvDiskDir, d.Dir), row(setDiskBytes, "disk bytes", EnvDiskBytes, d.Bytes))
	}
	return out
}

// SizeSettings names the settings of a resolved configuration that decide the pool's size, as they were set: fields or environment
// variables. If none was set, it names the fields that could be.
func (c Config) SizeSettings() string {
	var names []string
	for _, n := range [...]struct {
		of             setting
		name, variable string
	}{
		{setBlocks, "Memory.Blocks", EnvMaxBlocks}, {setMaxSeqs, "Memory.MaxSeqs", EnvMaxSeqs}, {setCapacity, "Memory.Capacity", EnvCapacity},
	} {
		if n.of == setBlocks && c.Memory.Layout != Paged { // which is MaxSeqs there
			continue
		}
		switch c.sources[n.of] {
		case FromEnvironment:
			names = append(names, n.variable)
		case FromOption:
			names = append(names, n.name)
		}
		if n.of == setBlocks && names != nil { // which say it alone
			break
		}
	}
	if names == nil {
		return "Memory.MaxSeqs or Memory.Capacity"
	}
	return strings.Join(names, " or ")
}
