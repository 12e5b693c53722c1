// Graphs: what was captured, launched again as one operation of a stream.
#include "call.h"

using namespace standin;

CUresult cuGraphDestroy(CUgraph graph) {
    return in_context({__func__, false, true}, [&](Machine &m, const ContextRef &) {
        if (!m.graphs.find(graph))
            return CUDA_ERROR_INVALID_VALUE;
        m.graphs.remove(graph);
        return CUDA_SUCCESS;
    });
}

CUresult cuGraphInstantiateWithFlags(CUgraphExec *exec, CUgraph graph, unsigned long long flags) {
    return in_context({__func__, true, true}, [&](Machine &m, const ContextRef &) {
        std::shared_ptr<Graph> from = m.graphs.find(graph);
        if (exec == nullptr || !from || flags != 0)
            return CUDA_ERROR_INVALID_VALUE;
        auto made = std::make_shared<Exec>();
        made->context = from->context;
        made->nodes = from->nodes;
        *exec = m.execs.add(made);
        return CUDA_SUCCESS;
    });
}

CUresult cuGraphLaunch(CUgraphExec exec, CUstream stream) {
    return in_context({__func__}, [&](Machine &m, const ContextRef &context) {
        std::shared_ptr<Exec> e = m.execs.find(exec);
        StreamRef s = m.stream(context, stream);
        if (!e || !s || e->context != s->context)
            return CUDA_ERROR_INVALID_VALUE;
        CUresult result = m.allow(*s, Use::RUN); // hardware's driver makes a graph within the graph of it
        if (result != CUDA_SUCCESS)
            return result;
        std::vector<Work> all;
        for (const Node &node : e->nodes) {
            Work work;
            result = node(m, *s, &work);
            if (result != CUDA_SUCCESS)
                return result;
            all.push_back(std::move(work));
        }
        if (m.fail_launch.fires()) {
            m.injected++;
            return CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES;
        }
        for (const Work &work : all)
            m.launches += work.launch;
        auto run = std::make_shared<std::vector<Work>>(std::move(all));
        e->last = m.scheduler.add(
            *s,
            [run] {
                CUresult result = CUDA_SUCCESS;
                for (size_t i = 0; i < run->size() && result == CUDA_SUCCESS; i++)
                    result = (*run)[i].run();
                return result;
            },
            e->last);
        e->used.add(s->id, s->number);
        for (const Work &work : *run)
            for (const AllocationRef &used : work.uses)
                used->used.add(s->id, s->number);
        return CUDA_SUCCESS;
    });
}

CUresult cuGraphExecDestroy(CUgraphExec exec) {
    return in_context({__func__, false, true}, [&](Machine &m, const ContextRef &) {
        std::shared_ptr<Exec> e = m.execs.find(exec);
        if (!e)
            return CUDA_ERROR_INVALID_VALUE;
        // CUDA documents, from 11.8 on, that a launch goes on to its end then; nobody has to rely on it.
        if (!m.scheduler.host_covers(e->used))
            return m.misused("cuGraphExecDestroy: a launch that nobody has waited for may be under way");
        m.execs.remove(exec);
        return CUDA_SUCCESS;
    });
}
