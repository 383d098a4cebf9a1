// Package schedreceiver is a receiver for the OpenTelemetry Collector: it runs the schedscope binary as a child
// and gives what that measures, scheduling time per container and intervals as spans, to the Collector's pipelines.
//
// It refuses to know what is measured: its YAML block holds schedscope's own blocks, which the child checks, and
// OTLP is taken by the Collector's own OTLP receiver on a private socket.
package schedreceiver

import (
	"context"
	"sync"

	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/consumer"
	"go.opentelemetry.io/collector/receiver"
)

var componentType = component.MustNewType("sched")

// NewFactory is what the Collector's builder asks for.
func NewFactory() receiver.Factory {
	receivers := &shared{byConfig: map[*Config]*schedReceiver{}}
	return receiver.NewFactory(
		componentType,
		defaultConfig,
		receiver.WithTraces(receivers.traces, component.StabilityLevelAlpha),
		receiver.WithMetrics(receivers.metrics, component.StabilityLevelAlpha),
	)
}

// shared holds one receiver for each config: the pipelines of both signals have the same child.
type shared struct {
	mutex    sync.Mutex
	byConfig map[*Config]*schedReceiver
}

func (s *shared) of(settings receiver.Settings, config component.Config) *schedReceiver {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	key := config.(*Config)
	if found, ok := s.byConfig[key]; ok {
		return found
	}
	made := &schedReceiver{config: key, settings: settings, forget: func() {
		s.mutex.Lock()
		defer s.mutex.Unlock()
		delete(s.byConfig, key)
	}}
	s.byConfig[key] = made
	return made
}

func (s *shared) traces(_ context.Context, settings receiver.Settings, config component.Config, next consumer.Traces) (receiver.Traces, error) {
	made := s.of(settings, config)
	made.nextTraces = next
	return made, nil
}

func (s *shared) metrics(_ context.Context, settings receiver.Settings, config component.Config, next consumer.Metrics) (receiver.Metrics, error) {
	made := s.of(settings, config)
	made.nextMetrics = next
	return made, nil
}
