package schedreceiver

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"time"

	"github.com/cenkalti/backoff/v5"
	"go.opentelemetry.io/collector/component/componentstatus"
	"go.uber.org/zap"
)

// supervisor keeps one child running until told to stop.
type supervisor struct {
	cancel context.CancelFunc
	// first tells how the first child began: nil when it measures.
	first chan error
	ended chan struct{}
}

// supervise starts the first child, and another whenever one has ended by itself.
func supervise(config *Config, file string, logger *zap.Logger, report func(*componentstatus.Event)) *supervisor {
	ctx, cancel := context.WithCancel(context.Background())
	s := &supervisor{cancel: cancel, first: make(chan error, 1), ended: make(chan struct{})}
	go func() {
		defer close(s.ended)
		// the kernel ends the child with the thread that started it, should the Collector be killed
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		s.run(ctx, config, file, logger, report)
	}()
	return s
}

// ready waits for the first child.
func (s *supervisor) ready(ctx context.Context, patience time.Duration) error {
	select {
	case err := <-s.first:
		return err
	case <-time.After(patience):
		return fmt.Errorf("schedscope was not ready within start_timeout (%v)", patience)
	case <-ctx.Done():
		return ctx.Err()
	}
}

// stop ends the child, by force after stop_timeout, and waits for that.
func (s *supervisor) stop() {
	s.cancel()
	<-s.ended
}

func (s *supervisor) run(ctx context.Context, config *Config, file string, logger *zap.Logger, report func(*componentstatus.Event)) {
	pause := backoff.NewExponentialBackOff()
	pause.InitialInterval, pause.MaxInterval = config.Restart.InitialInterval, config.Restart.MaxInterval
	begun := false
	for {
		var since time.Time
		err := runChild(ctx, config, file, logger, func() {
			since = time.Now()
			if !begun {
				begun = true
				s.first <- nil
			}
			report(componentstatus.NewEvent(componentstatus.StatusOK))
		})
		if ctx.Err() != nil {
			if err != nil && !errors.Is(err, context.Canceled) {
				logger.Warn("schedscope did not end well", zap.Error(err))
			}
			return
		}
		if !begun {
			// a start that fails is the Collector's to tell, as of a port that is taken
			s.first <- err
			return
		}
		if !since.IsZero() && time.Since(since) >= config.Restart.MaxInterval {
			pause.Reset()
		}
		wait := pause.NextBackOff()
		report(componentstatus.NewRecoverableErrorEvent(err))
		logger.Error("schedscope has ended; it is started again", zap.Error(err), zap.Duration("in", wait))
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return
		}
	}
}
