package schedreceiver

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"

	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/component/componentstatus"
	"go.opentelemetry.io/collector/config/configgrpc"
	"go.opentelemetry.io/collector/config/confignet"
	"go.opentelemetry.io/collector/config/configoptional"
	"go.opentelemetry.io/collector/consumer"
	"go.opentelemetry.io/collector/receiver"
	"go.opentelemetry.io/collector/receiver/otlpreceiver"
	"go.uber.org/zap"
)

// schedReceiver is a child, the socket it sends to, and the Collector's OTLP receiver behind that.
type schedReceiver struct {
	config      *Config
	settings    receiver.Settings
	nextTraces  consumer.Traces
	nextMetrics consumer.Metrics
	forget      func()

	startOnce, stopOnce sync.Once
	startError          error
	folder              string
	taking              []component.Component
	child               *supervisor

	hostsMutex sync.Mutex
	hosts      []component.Host
}

// Start returns when the child measures, or with what it said when it could not. Both pipelines call it.
func (r *schedReceiver) Start(ctx context.Context, host component.Host) error {
	r.hostsMutex.Lock()
	r.hosts = append(r.hosts, host)
	r.hostsMutex.Unlock()
	r.startOnce.Do(func() {
		if r.startError = r.start(ctx, host); r.startError != nil {
			r.startError = errors.Join(r.startError, r.stop(ctx))
		}
	})
	return r.startError
}

// report tells every pipeline's host how the child is.
func (r *schedReceiver) report(event *componentstatus.Event) {
	r.hostsMutex.Lock()
	defer r.hostsMutex.Unlock()
	for _, host := range r.hosts {
		componentstatus.ReportStatus(host, event)
	}
}

// Shutdown ends the child first: what it still holds comes in by the socket. Safe before Start and twice.
func (r *schedReceiver) Shutdown(ctx context.Context) error {
	var err error
	r.stopOnce.Do(func() {
		r.forget()
		err = r.stop(ctx)
	})
	return err
}

func (r *schedReceiver) start(ctx context.Context, host component.Host) error {
	// 0700 by its contract: nobody else may connect
	folder, err := os.MkdirTemp("", "schedscope-")
	if err != nil {
		return err
	}
	r.folder = folder
	if err := r.take(ctx, host); err != nil {
		return fmt.Errorf("the socket for the child: %w", err)
	}
	file, err := r.config.write(folder, signals{traces: r.nextTraces != nil, metrics: r.nextMetrics != nil})
	if err != nil {
		return err
	}
	// where in this package a line of the child is passed on says nothing, nor does a stack
	logger := r.settings.Logger.WithOptions(zap.WithCaller(false), zap.AddStacktrace(zap.DPanicLevel))
	r.child = supervise(r.config, file, logger, r.report)
	return r.child.ready(ctx, r.config.StartTimeout)
}

// take starts the Collector's own OTLP receiver on the socket.
func (r *schedReceiver) take(ctx context.Context, host component.Host) error {
	factory := otlpreceiver.NewFactory()
	config := factory.CreateDefaultConfig().(*otlpreceiver.Config)
	grpc := configgrpc.NewDefaultServerConfig()
	grpc.NetAddr = confignet.AddrConfig{Endpoint: filepath.Join(r.folder, socketName), Transport: confignet.TransportTypeUnix}
	config.Protocols.GRPC = configoptional.Some(grpc)
	config.Protocols.HTTP = configoptional.None[otlpreceiver.HTTPConfig]()

	// its counters go under otlp/sched or otlp/NAME
	settings := r.settings
	name := r.settings.ID.Name()
	if name == "" {
		name = componentType.String()
	}
	settings.ID = component.NewIDWithName(factory.Type(), name)
	if r.nextTraces != nil {
		traces, err := factory.CreateTraces(ctx, settings, config, r.nextTraces)
		if err != nil {
			return err
		}
		r.taking = append(r.taking, traces)
	}
	if r.nextMetrics != nil {
		metrics, err := factory.CreateMetrics(ctx, settings, config, r.nextMetrics)
		if err != nil {
			return err
		}
		r.taking = append(r.taking, metrics)
	}
	for _, one := range r.taking {
		if err := one.Start(ctx, host); err != nil {
			return err
		}
	}
	return nil
}

func (r *schedReceiver) stop(ctx context.Context) error {
	var problems []error
	if r.child != nil {
		r.child.stop()
		r.child = nil
	}
	for _, one := range r.taking {
		problems = append(problems, one.Shutdown(ctx))
	}
	r.taking = nil
	if r.folder != "" {
		problems = append(problems, os.RemoveAll(r.folder))
		r.folder = ""
	}
	return errors.Join(problems...)
}
