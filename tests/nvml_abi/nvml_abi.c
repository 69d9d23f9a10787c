/* A libnvidia-ml.so.1 without a GPU: the part of NVML's binary interface that collectors/nvml_driver.py reaches
 * through pynvml. It is written from the published interface, not from the reader: sizes are asserted here and
 * compared with pynvml's by the tests, versions and scopes are checked, and every number differs from every other.
 *
 * NVML_ABI_SCENARIO, or nvml_abi_scenario(), chooses what the driver does:
 *   healthy, mig, unsupported, lost, falling, silent, xid, process_na, r545, nvlink, no_gpus, unloaded,
 *   mismatch, not_loaded, no_permission, gpm_denied, gpm_nan, gpm_falling, gpm_resized
 * -DOLD_DRIVER leaves out what drivers before 510 do not have.
 */
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef enum {
    SUCCESS = 0, UNINITIALIZED = 1, INVALID_ARGUMENT = 2, NOT_SUPPORTED = 3, NO_PERMISSION = 4, NOT_FOUND = 6,
    INSUFFICIENT_SIZE = 7, DRIVER_NOT_LOADED = 9, TIMEOUT = 10, GPU_IS_LOST = 15, LIB_RM_VERSION_MISMATCH = 18,
    ARGUMENT_VERSION_MISMATCH = 25, UNKNOWN = 999
} nvmlReturn_t;

typedef struct { char busIdLegacy[16]; unsigned domain, bus, device, pciDeviceId, pciSubSystemId; char busId[32]; }
    nvmlPciInfo_t;
typedef struct { unsigned long long total, free, used; } nvmlMemory_t;
typedef struct { unsigned version; unsigned long long total, reserved, free, used; } nvmlMemory_v2_t;
typedef struct { unsigned gpu, memory; } nvmlUtilization_t;
typedef struct { unsigned pid; unsigned long long usedGpuMemory; unsigned gpuInstanceId, computeInstanceId; }
    nvmlProcessInfo_t;
typedef union { double d; unsigned ui; unsigned long ul; unsigned long long ull; long long sll; int si;
    unsigned short us; } nvmlValue_t;
typedef struct { unsigned fieldId, scopeId; long long timestamp, latencyUsec; unsigned valueType, nvmlReturn;
    nvmlValue_t value; } nvmlFieldValue_t;
typedef struct device *nvmlDevice_t;
typedef struct { nvmlDevice_t device; unsigned long long eventType, eventData;
    unsigned gpuInstanceId, computeInstanceId; } nvmlEventData_t;
typedef struct { unsigned version, isSupportedDevice; } nvmlGpmSupport_t;
typedef struct { unsigned metricId, nvmlReturn; double value; struct { const char *shortName, *longName, *unit; } metricInfo; }
    nvmlGpmMetric_t;
typedef struct sample { const struct device *of; unsigned gi, filled; unsigned long long taken; } *nvmlGpmSample_t;
/* The number of metrics grows with every release: the caller says how many it filled. */
typedef struct { unsigned version, numMetrics; nvmlGpmSample_t sample1, sample2; nvmlGpmMetric_t metrics[]; }
    nvmlGpmMetricsGet_t;
_Static_assert(sizeof(nvmlPciInfo_t) == 68 && sizeof(nvmlMemory_v2_t) == 40 && sizeof(nvmlProcessInfo_t) == 24 &&
    sizeof(nvmlGpmMetric_t) == 40 && sizeof(nvmlFieldValue_t) == 40 && sizeof(nvmlEventData_t) == 32, "NVML's sizes on 64-bit Linux");

enum { MEMORY_V2 = 0x02000028, NO_INSTANCE = 0xFFFFFFFF, ALL_LINKS = 0xFFFFFFFF, XID_EVENT = 8 };
static const unsigned long long MIB = 1 << 20, NOT_AVAILABLE = ~0ULL;

struct device { unsigned index; struct device *parent; unsigned gi; const char *uuid, *name; unsigned long long mib; };
static struct device gpus[2] = {
    {0, NULL, NO_INSTANCE, "GPU-aaaa", "NVIDIA H200", 143771}, {1, NULL, NO_INSTANCE, "GPU-bbbb", "NVIDIA H200", 143771}};
/* GPU instance 1 is split in two compute instances, which share its memory; slot 2 is empty. */
static struct device migs[4] = {
    {0, &gpus[0], 1, "MIG-1-0", "NVIDIA H200 MIG 1c.3g.71gb", 71424},
    {1, &gpus[0], 1, "MIG-1-1", "NVIDIA H200 MIG 2c.3g.71gb", 71424},
    {0, NULL, 0, NULL, NULL, 0}, {3, &gpus[0], 9, "MIG-9-0", "NVIDIA H200 MIG 1g.18gb+me", 16384}};
/* What instance 9 is in the scenario gpm_resized. */
static const char resized[] = "NVIDIA H200 MIG 2g.35gb";

static const char *chosen;
static int opened, inits, calls, xids_given, calls_of_second, samples;
static unsigned watched;
static unsigned long long traffic; /* KiB over all links, grows by half a million a batch where links are busy */

void nvml_abi_scenario(const char *name) { free((char *)chosen); chosen = strdup(name); xids_given = calls_of_second = 0; }
int nvml_abi_inits(void) { return inits; }
int nvml_abi_open(void) { return opened; }
int nvml_abi_calls(void) { return calls; }
int nvml_abi_samples(void) { return samples; } /* GPM samples allocated and not freed */

static int is(const char *name) {
    const char *now = chosen ? chosen : getenv("NVML_ABI_SCENARIO");
    return strcmp(now ? now : "healthy", name) == 0;
}
static int in_mig_mode(void) { return is("mig") || is("gpm_resized"); }
static nvmlReturn_t usable(nvmlDevice_t device) {
    calls++;
    if (!opened) return UNINITIALIZED;
    if (is("unloaded")) return DRIVER_NOT_LOADED;
    if (!device) return INVALID_ARGUMENT;
    if (device == &gpus[1] && is("lost")) return GPU_IS_LOST;
    if (device == &gpus[1] && is("falling") && ++calls_of_second > 3) return GPU_IS_LOST;
    if (device == &gpus[1] && is("silent")) return UNKNOWN;
    return SUCCESS;
}
/* What a GPU of the "unsupported" kind, a GPU in MIG mode, and a MIG handle refuse. */
static nvmlReturn_t optional(nvmlDevice_t device) {
    nvmlReturn_t state = usable(device);
    if (state != SUCCESS) return state;
    if (device == &gpus[1] && is("unsupported")) return NOT_SUPPORTED;
    return device->parent ? NOT_SUPPORTED : SUCCESS;
}
static nvmlReturn_t number(nvmlDevice_t device, unsigned *out, unsigned value) {
    nvmlReturn_t state = optional(device);
    if (state == SUCCESS) *out = value + device->index;
    return state;
}
static nvmlReturn_t text(nvmlDevice_t device, char *out, unsigned size, const char *value) {
    nvmlReturn_t state = usable(device);
    if (state != SUCCESS) return state;
    if (strlen(value) + 1 > size) return INSUFFICIENT_SIZE;
    strcpy(out, value);
    return SUCCESS;
}

nvmlReturn_t nvmlInitWithFlags(unsigned flags) {
    if (flags) return INVALID_ARGUMENT;
    if (is("mismatch")) return LIB_RM_VERSION_MISMATCH;
    if (is("not_loaded")) return DRIVER_NOT_LOADED;
    if (is("no_permission")) return NO_PERMISSION;
    opened++, inits++;
    return SUCCESS;
}
nvmlReturn_t nvmlShutdown(void) { return opened ? (opened--, watched = 0, SUCCESS) : UNINITIALIZED; }
const char *nvmlErrorString(nvmlReturn_t code) { (void)code; return "an error without a name"; }
nvmlReturn_t nvmlSystemGetDriverVersion(char *out, unsigned size) {
    return opened ? (snprintf(out, size, "590.48.01"), SUCCESS) : UNINITIALIZED;
}
nvmlReturn_t nvmlDeviceGetCount_v2(unsigned *count) {
    if (!opened) return UNINITIALIZED;
    if (is("unloaded")) return DRIVER_NOT_LOADED;
    *count = is("no_gpus") ? 0 : 2;
    return SUCCESS;
}
nvmlReturn_t nvmlDeviceGetHandleByIndex_v2(unsigned index, nvmlDevice_t *out) {
    if (index > 1) return INVALID_ARGUMENT;
    *out = &gpus[index];
    return usable(*out);
}
nvmlReturn_t nvmlDeviceGetName(nvmlDevice_t d, char *out, unsigned size) {
    return text(d, out, size, d == &migs[3] && is("gpm_resized") ? resized : d->name);
}
nvmlReturn_t nvmlDeviceGetUUID(nvmlDevice_t d, char *out, unsigned size) { return text(d, out, size, d->uuid); }
nvmlReturn_t nvmlDeviceGetPciInfo_v3(nvmlDevice_t d, nvmlPciInfo_t *out) {
    nvmlReturn_t state = usable(d);
    if (state != SUCCESS) return state;
    *out = (nvmlPciInfo_t){"", 0, 0x83 + d->index, 0, 0x233510DE, 0x18BE10DE, ""};
    snprintf(out->busIdLegacy, 16, "0000:%02X:00.0", out->bus);
    snprintf(out->busId, 32, "00000000:%02X:00.0", out->bus);
    return SUCCESS;
}
nvmlReturn_t nvmlDeviceGetClockInfo(nvmlDevice_t d, unsigned type, unsigned *out) {
    return type == 1 ? number(d, out, 1980) : type == 2 ? number(d, out, 3201) : INVALID_ARGUMENT;
}
nvmlReturn_t nvmlDeviceGetTemperature(nvmlDevice_t d, unsigned sensor, unsigned *out) {
    nvmlReturn_t state = usable(d); /* the one number that every GPU has */
    return sensor ? INVALID_ARGUMENT : state == SUCCESS ? (*out = 52 + d->index, state) : state;
}
nvmlReturn_t nvmlDeviceGetPowerUsage(nvmlDevice_t d, unsigned *out) { return number(d, out, 627400); }
nvmlReturn_t nvmlDeviceGetPowerManagementLimit(nvmlDevice_t d, unsigned *out) { return number(d, out, 690000); }
nvmlReturn_t nvmlDeviceGetPowerManagementDefaultLimit(nvmlDevice_t d, unsigned *out) { return number(d, out, 695000); }
nvmlReturn_t nvmlDeviceGetEnforcedPowerLimit(nvmlDevice_t d, unsigned *out) { return number(d, out, 680000); }
nvmlReturn_t nvmlDeviceGetPowerManagementLimitConstraints(nvmlDevice_t d, unsigned *min, unsigned *max) {
    nvmlReturn_t state = number(d, min, 200000);
    return state == SUCCESS ? number(d, max, 700000) : state;
}
nvmlReturn_t nvmlDeviceGetCurrPcieLinkGeneration(nvmlDevice_t d, unsigned *out) { return number(d, out, 3); }
nvmlReturn_t nvmlDeviceGetMaxPcieLinkGeneration(nvmlDevice_t d, unsigned *out) { return number(d, out, 5); }
nvmlReturn_t nvmlDeviceGetCurrPcieLinkWidth(nvmlDevice_t d, unsigned *out) { return number(d, out, 8); }
nvmlReturn_t nvmlDeviceGetMaxPcieLinkWidth(nvmlDevice_t d, unsigned *out) { return number(d, out, 16); }
nvmlReturn_t nvmlDeviceGetUtilizationRates(nvmlDevice_t d, nvmlUtilization_t *out) {
    if (d == &gpus[0] && in_mig_mode()) return NOT_SUPPORTED;
    nvmlReturn_t state = number(d, &out->gpu, 97);
    return state == SUCCESS ? number(d, &out->memory, 7) : state;
}
static nvmlReturn_t engine(nvmlDevice_t d, unsigned *out, unsigned *period, unsigned value) {
    if (d == &gpus[0] && in_mig_mode()) return NOT_SUPPORTED;
    *period = 167000;
    return number(d, out, value);
}
nvmlReturn_t nvmlDeviceGetEncoderUtilization(nvmlDevice_t d, unsigned *out, unsigned *period) { return engine(d, out, period, 11); }
nvmlReturn_t nvmlDeviceGetDecoderUtilization(nvmlDevice_t d, unsigned *out, unsigned *period) { return engine(d, out, period, 21); }
nvmlReturn_t nvmlDeviceGetCurrentClocksThrottleReasons(nvmlDevice_t d, unsigned long long *out) {
    nvmlReturn_t state = optional(d);
    return state == SUCCESS ? (*out = 0x100000000ULL + 0x44 + d->index, state) : state;
}
nvmlReturn_t nvmlDeviceGetMemoryInfo(nvmlDevice_t d, nvmlMemory_t *out) {
    nvmlReturn_t state = usable(d);
    if (state != SUCCESS) return state;
    if (d == &gpus[1] && is("unsupported")) return NO_PERMISSION;
    *out = (nvmlMemory_t){d->mib * MIB, (d->mib - 1614 - d->index) * MIB, (1614 + d->index) * MIB};
    return SUCCESS;
}

/* Energy does not fit 32 bits; everything else is 5000 + id + 100 a GPU, in the width NVML uses or another. */
static void field(nvmlDevice_t d, nvmlFieldValue_t *f) {
    unsigned id = f->fieldId, per_link = id == 138 || id == 139 || (id >= 161 && id <= 163) || (id >= 202 && id <= 221);
    unsigned long long value = 5000 + id + 100 * d->index;
    memset(&f->value, 0xAA, sizeof f->value); /* reading another width than the one written is noticed */
    f->nvmlReturn = SUCCESS, f->timestamp = 1783116669000000, f->latencyUsec = 3;
    if (d == &gpus[1] && is("unsupported")) { f->nvmlReturn = id % 2 ? NOT_SUPPORTED : NO_PERMISSION; return; }
    if (id >= 29 && id <= 31) { f->nvmlReturn = NOT_SUPPORTED; return; }            /* HBM has no page retirement */
    if (id == 38) { f->valueType = 3, f->value.ull = NOT_AVAILABLE; return; }
    if (id == 45) { f->valueType = 1, f->value.ui = 0xFFFFFFFF; return; }
    if (id == 52) { f->valueType = 5, f->value.si = -1; return; }
    if (id == 59) { f->valueType = 77, f->value.ui = 1; return; }                   /* a type from the future */
    if (per_link) {
        value += traffic;
        f->valueType = 3, f->value.ull = f->scopeId == ALL_LINKS ? value : value / 18;
        return;
    }
    if (f->scopeId) { f->nvmlReturn = INVALID_ARGUMENT; return; }
    if (id == 82) { f->valueType = is("r545") ? 0 : 1, f->value.ui = 40 + d->index; return; }
    if (id == 83) { f->valueType = 3, f->value.ull = 5551899580ULL + d->index; return; }
    if (id == 94) { f->valueType = 0, f->value.d = (double)value; return; }
    if (id == 142) { f->valueType = 6, f->value.us = (unsigned short)value; return; }
    if (id == 143) { f->valueType = 5, f->value.si = (int)value; return; }
    if (id == 144) { f->valueType = 4, f->value.sll = (long long)value; return; }
    if (id == 145) { f->valueType = 2, f->value.ul = value; return; }
    f->valueType = id >= 74 && id <= 79 ? 3 : 1;
    if (f->valueType == 3) f->value.ull = value; else f->value.ui = (unsigned)value;
}
nvmlReturn_t nvmlDeviceGetFieldValues(nvmlDevice_t d, int count, nvmlFieldValue_t *values) {
    nvmlReturn_t state = usable(d);
    if (state != SUCCESS) return state;
#ifdef OLD_DRIVER
    for (int i = 0; i < count; i++) if (values[i].fieldId > 145) return INVALID_ARGUMENT;
#endif
    if (is("nvlink")) traffic += 500000;
    for (int i = 0; i < count; i++) field(d, &values[i]);
    return SUCCESS;
}

nvmlReturn_t nvmlDeviceGetMigMode(nvmlDevice_t d, unsigned *current, unsigned *pending) {
    if (d == &gpus[1]) return NOT_SUPPORTED;
    *current = *pending = in_mig_mode();
    return usable(d);
}
nvmlReturn_t nvmlDeviceGetMaxMigDeviceCount(nvmlDevice_t d, unsigned *count) { *count = 4; return usable(d); }
nvmlReturn_t nvmlDeviceGetMigDeviceHandleByIndex(nvmlDevice_t d, unsigned index, nvmlDevice_t *out) {
    nvmlReturn_t state = usable(d);
    if (state != SUCCESS || index > 3) return state ? state : INVALID_ARGUMENT;
    *out = &migs[index];
    return migs[index].parent == d ? SUCCESS : NOT_FOUND;
}
nvmlReturn_t nvmlDeviceGetGpuInstanceId(nvmlDevice_t d, unsigned *out) { *out = d->gi; return usable(d); }

/* As NVML does: a null list asks for the number; too small a list is refused. */
static nvmlReturn_t list(nvmlDevice_t d, unsigned *count, nvmlProcessInfo_t *out, unsigned first, unsigned last) {
    nvmlReturn_t state = usable(d);
    unsigned number = last - first + 1, room = *count;
    if (state != SUCCESS) return state;
    if (d == &gpus[1]) return *count = 0, SUCCESS;
    *count = number;
    if (!out || room < number) return INSUFFICIENT_SIZE;
    for (unsigned i = 0; i < number; i++)
        out[i] = (nvmlProcessInfo_t){first + i + 1000 * (d->parent ? d->index + 1 : 0),
                                     is("process_na") ? NOT_AVAILABLE : (first + i) * MIB, d->gi, 0};
    return SUCCESS;
}
#ifdef OLD_DRIVER
#define VERSION(name) name##_v2
#else
#define VERSION(name) name##_v3
nvmlReturn_t nvmlDeviceGetMemoryInfo_v2(nvmlDevice_t d, nvmlMemory_v2_t *out) {
    nvmlReturn_t state = usable(d);
    if (state != SUCCESS) return state;
    if (out->version != MEMORY_V2) return ARGUMENT_VERSION_MISMATCH;
    if (d == &gpus[1] && is("unsupported")) return NO_PERMISSION;
    unsigned long long used = 1000 + d->index, reserved = d->parent ? 0 : 614;
    *out = (nvmlMemory_v2_t){MEMORY_V2, d->mib * MIB, reserved * MIB, (d->mib - used - reserved) * MIB, used * MIB};
    return SUCCESS;
}
nvmlReturn_t nvmlDeviceGetCurrentClocksEventReasons(nvmlDevice_t d, unsigned long long *out) {
    return nvmlDeviceGetCurrentClocksThrottleReasons(d, out);
}
#endif
nvmlReturn_t VERSION(nvmlDeviceGetComputeRunningProcesses)(nvmlDevice_t d, unsigned *count, nvmlProcessInfo_t *out) {
    return list(d, count, out, 101, 102);
}
nvmlReturn_t VERSION(nvmlDeviceGetGraphicsRunningProcesses)(nvmlDevice_t d, unsigned *count, nvmlProcessInfo_t *out) {
    return d->parent ? NOT_SUPPORTED : list(d, count, out, 102, 103); /* 102 has both kinds of context */
}
nvmlReturn_t VERSION(nvmlDeviceGetMPSComputeRunningProcesses)(nvmlDevice_t d, unsigned *count, nvmlProcessInfo_t *out) {
    return d->parent ? NOT_SUPPORTED : list(d, count, out, 104, 104);
}

nvmlReturn_t nvmlEventSetCreate(void **set) { *set = &watched; return opened ? SUCCESS : UNINITIALIZED; }
nvmlReturn_t nvmlEventSetFree(void *set) { return set == &watched ? SUCCESS : INVALID_ARGUMENT; }
nvmlReturn_t nvmlDeviceGetSupportedEventTypes(nvmlDevice_t d, unsigned long long *types) {
    nvmlReturn_t state = optional(d);
    return state == SUCCESS ? (*types = 0x1F, state) : state;
}
nvmlReturn_t nvmlDeviceRegisterEvents(nvmlDevice_t d, unsigned long long types, void *set) {
    if (set != &watched || types != XID_EVENT) return INVALID_ARGUMENT;
    watched |= 1u << d->index;
    return usable(d);
}
nvmlReturn_t nvmlEventSetWait_v2(void *set, nvmlEventData_t *out, unsigned timeout) {
    static const struct { unsigned gpu, type, code, gi; } given[] = {
        {0, 8, 31, NO_INSTANCE}, {1, 8, 48, NO_INSTANCE}, {1, 8, 94, NO_INSTANCE}, {1, 4, 9999, NO_INSTANCE}};
    if (set != &watched || timeout) return INVALID_ARGUMENT;
    if (!is("xid") || xids_given >= 4) return TIMEOUT;
    int next = xids_given++;
    if (!(watched & 1u << given[next].gpu)) return TIMEOUT;
    *out = (nvmlEventData_t){&gpus[given[next].gpu], given[next].type, given[next].code, given[next].gi, NO_INSTANCE};
    return SUCCESS;
}

/* GPM, which drivers before 520 do not have. A metric is its own id and a quarter, 10 more for the second GPU;
 * samples that are empty, in the wrong order, or of two GPUs or instances are refused. */
#ifndef OLD_DRIVER
nvmlReturn_t nvmlGpmQueryDeviceSupport(nvmlDevice_t d, nvmlGpmSupport_t *out) {
    nvmlReturn_t state = usable(d);
    if (state != SUCCESS) return state;
    if (out->version != 1) return ARGUMENT_VERSION_MISMATCH;
    out->isSupportedDevice = !(d == &gpus[1] && is("unsupported"));
    return SUCCESS;
}
nvmlReturn_t nvmlGpmSampleAlloc(nvmlGpmSample_t *out) {
    *out = calloc(1, sizeof **out);
    samples++;
    return opened ? SUCCESS : UNINITIALIZED;
}
nvmlReturn_t nvmlGpmSampleFree(nvmlGpmSample_t sample) {
    if (!sample) return INVALID_ARGUMENT;
    free(sample);
    samples--;
    return SUCCESS;
}
static nvmlReturn_t take(nvmlDevice_t d, unsigned gi, nvmlGpmSample_t sample) {
    static unsigned long long taken;
    nvmlReturn_t state = usable(d);
    if (state != SUCCESS) return state;
    if (is("gpm_denied")) return NO_PERMISSION;
    if (d == &gpus[1] && is("gpm_falling")) return GPU_IS_LOST;
    *sample = (struct sample){d, gi, 1, ++taken};
    return SUCCESS;
}
nvmlReturn_t nvmlGpmSampleGet(nvmlDevice_t d, nvmlGpmSample_t sample) {
    return d->parent || (d == &gpus[0] && in_mig_mode()) ? NOT_SUPPORTED : take(d, NO_INSTANCE, sample);
}
nvmlReturn_t nvmlGpmMigSampleGet(nvmlDevice_t d, unsigned gi, nvmlGpmSample_t sample) {
    if (d != &gpus[0] || !in_mig_mode() || (gi != 1 && gi != 9)) return INVALID_ARGUMENT;
    return take(d, gi, sample);
}
nvmlReturn_t nvmlGpmMetricsGet(nvmlGpmMetricsGet_t *get) {
    nvmlGpmSample_t from = get->sample1, to = get->sample2;
    if (get->version != 1) return ARGUMENT_VERSION_MISMATCH;
    if (!from->filled || !to->filled || from->of != to->of || from->gi != to->gi || from->taken >= to->taken)
        return INVALID_ARGUMENT;
    for (unsigned i = 0; i < get->numMetrics; i++) {
        nvmlGpmMetric_t *metric = &get->metrics[i];
        double value = metric->metricId + 0.25 + 10 * to->of->index;
        metric->nvmlReturn = to->gi != NO_INSTANCE && metric->metricId > 5 ? NOT_SUPPORTED : SUCCESS;
        metric->value = is("gpm_nan") && metric->metricId == 10 ? 0.0 / 0.0 : value;
    }
    return SUCCESS;
}
#endif

#define AT(type, member) " " #member ":%zu", offsetof(type, member)
#define PART(...) used += snprintf(out + used, sizeof out - used, __VA_ARGS__)
const char *nvml_abi_layout(void) {
    static char out[2048];
    size_t used = 0;
    PART("nvmlPciInfo_t %zu", sizeof(nvmlPciInfo_t));
    PART(AT(nvmlPciInfo_t, domain)); PART(AT(nvmlPciInfo_t, pciSubSystemId)); PART(AT(nvmlPciInfo_t, busId));
    PART("\nc_nvmlMemory_v2_t %zu", sizeof(nvmlMemory_v2_t));
    PART(AT(nvmlMemory_v2_t, version)); PART(AT(nvmlMemory_v2_t, total)); PART(AT(nvmlMemory_v2_t, reserved));
    PART(AT(nvmlMemory_v2_t, free)); PART(AT(nvmlMemory_v2_t, used));
    PART("\nc_nvmlMemory_t %zu", sizeof(nvmlMemory_t));
    PART(AT(nvmlMemory_t, total)); PART(AT(nvmlMemory_t, free)); PART(AT(nvmlMemory_t, used));
    PART("\nc_nvmlUtilization_t %zu", sizeof(nvmlUtilization_t));
    PART(AT(nvmlUtilization_t, gpu)); PART(AT(nvmlUtilization_t, memory));
    PART("\nc_nvmlProcessInfo_v3_t %zu", sizeof(nvmlProcessInfo_t));
    PART(AT(nvmlProcessInfo_t, pid)); PART(AT(nvmlProcessInfo_t, usedGpuMemory));
    PART(AT(nvmlProcessInfo_t, gpuInstanceId)); PART(AT(nvmlProcessInfo_t, computeInstanceId));
    PART("\nc_nvmlFieldValue_t %zu", sizeof(nvmlFieldValue_t));
    PART(AT(nvmlFieldValue_t, fieldId)); PART(AT(nvmlFieldValue_t, scopeId)); PART(AT(nvmlFieldValue_t, timestamp));
    PART(AT(nvmlFieldValue_t, latencyUsec)); PART(AT(nvmlFieldValue_t, valueType));
    PART(AT(nvmlFieldValue_t, nvmlReturn)); PART(AT(nvmlFieldValue_t, value));
    PART("\nc_nvmlGpmSupport_t %zu", sizeof(nvmlGpmSupport_t)); PART(AT(nvmlGpmSupport_t, isSupportedDevice));
    PART("\nc_nvmlGpmMetric_t %zu", sizeof(nvmlGpmMetric_t)); PART(AT(nvmlGpmMetric_t, nvmlReturn));
    PART(AT(nvmlGpmMetric_t, value)); PART(AT(nvmlGpmMetric_t, metricInfo));
    PART("\nc_nvmlGpmMetricsGet_t any"); PART(AT(nvmlGpmMetricsGet_t, numMetrics));
    PART(AT(nvmlGpmMetricsGet_t, sample1)); PART(AT(nvmlGpmMetricsGet_t, sample2)); PART(AT(nvmlGpmMetricsGet_t, metrics));
    PART("\nc_nvmlEventData_t %zu", sizeof(nvmlEventData_t));
    PART(AT(nvmlEventData_t, device)); PART(AT(nvmlEventData_t, eventType)); PART(AT(nvmlEventData_t, eventData));
    PART(AT(nvmlEventData_t, gpuInstanceId)); PART(AT(nvmlEventData_t, computeInstanceId));
    return out;
}
