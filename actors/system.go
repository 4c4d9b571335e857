package actors

import (
	"log/slog"

	"github.com/asynkron/protoactor-go/actor"
	"go.uber.org/zap"
	"go.uber.org/zap/exp/zapslog"
	"go.uber.org/zap/zapcore"
)

// onCaller spawns an actor that runs on the thread that sends to it. One that
// fails is restarted however often it does: protoactor's own choice is to stop it
// for good after the tenth time in ten seconds, and who asks an actor that is gone
// waits forever.
func onCaller(producer actor.Producer) *actor.Props {
	return beside(producer).Configure(actor.WithMailbox(func() actor.Mailbox { return &mailbox{} }))
}

// beside spawns an actor with a goroutine of its own.
func beside(producer actor.Producer) *actor.Props {
	return actor.PropsFromProducer(producer,
		actor.WithGuardian(actor.RestartingSupervisorStrategy()))
}

// newSystem makes an actor system whose own messages go where ours go.
func newSystem(log *zap.Logger) *actor.ActorSystem {
	// Its notices of start and stop are of no use to a training job.
	core, err := zapcore.NewIncreaseLevelCore(log.Core(), zapcore.WarnLevel)
	if err != nil { // log is quieter than that already
		core = log.Core()
	}
	handler := zapslog.NewHandler(core)
	return actor.NewActorSystem(actor.WithLoggerFactory(func(*actor.ActorSystem) *slog.Logger {
		return slog.New(handler)
	}))
}
