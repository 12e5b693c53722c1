package metrics

// Type is what a metric is to Prometheus.
type Type uint8

const (
	GaugeType     Type = iota // a number that rises and falls
	CounterType               // a number that only rises, until the process ends
	HistogramType             // observations, counted in buckets
)

func (t Type) String() string {
	return [...]string{"gauge", "counter", "histogram", "untyped"}[min(t, HistogramType+1)]
}

// Metric is a row of a table of metrics of T.
type Metric[T any] struct {
	Name   string // without the _total of counters, which Write adds
	Help   string // a sentence
	Unit   string // of values, for people, such as bytes
	Type   Type
	Labels []string // names
	// Read returns the samples of a snapshot, none where the metric does not apply. It may be called at any time.
	Read func(from T) []Sample
}

// Sample is a value of a metric.
type Sample struct {
	Labels       []string // values, in the order of Metric.Labels
	Value        float64
	Distribution *Distribution // of a HistogramType, in place of Value
}

// Family is a metric with its samples.
type Family struct {
	Name, Help, Unit string
	Type             Type
	Labels           []string
	Samples          []Sample
}

// Of reads the metrics of a table from a snapshot.
func Of[T any](table []Metric[T], from T) []Family {
	all := make([]Family, len(table))
	for i, m := range table {
		all[i] = Family{Name: m.Name, Help: m.Help, Unit: m.Unit, Type: m.Type, Labels: m.Labels}
		if m.Read != nil {
			all[i].Samples = m.Read(from)
		}
	}
	return all
}
