// Package collector hands tables of package metrics to a registry of Prometheus's client for Go:
//
//	err := registry.Register(collector.New(metrics.Pool(), pool.Stats))
//
// It is a module of its own: a program that writes the text itself (metrics.Write) does not need that client.
package collector

import (
	"fmt"
	"strings"

	"github.com/ferrumkv/ferrumkv/kvcache/metrics"
	"github.com/prometheus/client_golang/prometheus"
)

// Collector reads a table of metrics at each scrape.
type Collector[T any] struct {
	table []metrics.Metric[T]
	descs []*prometheus.Desc
	read  func() (T, error)
}

var _ prometheus.Collector = (*Collector[int])(nil)

// New returns a collector of a table, whose numbers are those that read returns. A scrape fails while read does. With several pools in a process,
// register each with labels of its own (prometheus.WrapRegistererWith).
func New[T any](table []metrics.Metric[T], read func() (T, error)) *Collector[T] {
	c := &Collector[T]{table: table, read: read}
	for _, m := range table {
		name := m.Name
		if m.Type == metrics.CounterType {
			name += "_total"
		}
		c.descs = append(c.descs, prometheus.NewDesc(name, strings.ToValidUTF8(m.Help, "\uFFFD"), m.Labels, nil))
	}
	return c
}

// Describe implements prometheus.Collector.
func (c *Collector[T]) Describe(to chan<- *prometheus.Desc) {
	for _, d := range c.descs {
		to <- d
	}
}

// Collect implements prometheus.Collector.
func (c *Collector[T]) Collect(to chan<- prometheus.Metric) {
	from, err := c.read()
	for i, m := range c.table {
		if err != nil {
			to <- prometheus.NewInvalidMetric(c.descs[i], err)
			return
		}
		for _, s := range m.Read(from) {
			to <- constant(c.descs[i], m.Type, s)
		}
	}
}

// constant is a sample as a metric, with the label values that metrics.Write has: the client refuses others, and the whole scrape with them.
func constant(desc *prometheus.Desc, t metrics.Type, s metrics.Sample) prometheus.Metric {
	labels := make([]string, len(s.Labels))
	for i, l := range s.Labels {
		labels[i] = strings.ToValidUTF8(l, "\uFFFD")
	}
	made, err := func() (prometheus.Metric, error) {
		switch t {
		case metrics.GaugeType:
			return prometheus.NewConstMetric(desc, prometheus.GaugeValue, s.Value, labels...)
		case metrics.CounterType:
			return prometheus.NewConstMetric(desc, prometheus.CounterValue, s.Value, labels...)
		case metrics.HistogramType:
			if d := s.Distribution; d != nil && len(d.Counts) == len(d.Bounds)+1 {
				return prometheus.NewConstHistogram(desc, d.Count(), d.Sum, cumulative(*d), labels...)
			}
			return nil, fmt.Errorf("a histogram without a bucket for each bound, and one above")
		}
		return nil, fmt.Errorf("an unknown type")
	}()
	if err != nil {
		return prometheus.NewInvalidMetric(desc, err)
	}
	return made
}

// cumulative is how many observations are at most each bound.
func cumulative(d metrics.Distribution) map[float64]uint64 {
	buckets, n := make(map[float64]uint64, len(d.Bounds)), uint64(0)
	for i, bound := range d.Bounds {
		n += d.Counts[i]
		buckets[bound] = n
	}
	return buckets
}
