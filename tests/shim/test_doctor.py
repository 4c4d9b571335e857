"""`stalloc doctor`: what it says of this machine with the simulated driver, and of broken ones."""

import json
import os
import signal
import subprocess
import sys

import pytest
from programs import DRIVER, ENGINE, ROOT

COMMAND = ROOT / "bin" / "stalloc"


@pytest.fixture
def doctor(tmp_path):
    """doctor(conf=..., **environment): exit status, and the findings by subject."""

    def look(conf=f"driver:{DRIVER},engine:{ENGINE}", *options, **environment):
        env = {k: v for k, v in os.environ.items() if not k.startswith(("STALLOC_", "FAKECUDA_"))}
        env |= {"STALLOC_CONF": conf, "XDG_CACHE_HOME": str(tmp_path), "PATH": str(tmp_path)}
        env |= {"FAKECUDA_ANY_STREAM": "1", **environment}
        command = [str(COMMAND), "doctor", "--python", sys.executable, "--json", *options]
        done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=120)
        findings = {}
        for line in done.stdout.splitlines():
            finding = json.loads(line)
            findings.setdefault(finding["subject"], []).append(finding)
        return done.returncode, findings, done.stderr

    return look


def test_a_sound_machine(doctor, tmp_path):
    status, found, errors = doctor(PYTORCH_CUDA_ALLOC_CONF="expandable_segments:True")
    assert status == 0, (found, errors)
    for subject in ("system", "glibc", "library", "driver", "gpu", "trial"):
        assert [f["status"] for f in found[subject]] == ["ok"], found[subject]
    assert "fake CUDA device 0, virtual memory management" in found["gpu"][0]["text"]
    assert found["trial"][0]["text"].endswith(f"from {ENGINE}")
    assert "no effect" in found["settings"][1]["text"]


def test_settings_of_pytorch_that_matter(doctor):
    environment = {
        "PYTORCH_ALLOC_CONF": "backend:cudaMallocAsync",
        "PYTORCH_NO_CUDA_MEMORY_CACHING": "1",
    }
    status, found, _ = doctor(**environment)
    texts = [f["text"] for f in found["settings"] if f["status"] == "note"]
    assert status == 0 and len(texts) == 2
    assert "only PyTorch's pluggable route" in texts[0] and "stalloc serves none" in texts[1]


def test_another_python(tmp_path):
    """The package's own command starts the doctor of the interpreter that is named."""
    absent = str(tmp_path / "python")
    command = [sys.executable, "-m", "stalloc", "doctor", "--python", absent]
    env = {**os.environ, "PYTHONPATH": str(ROOT / "python")}
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=120)
    assert done.returncode == 2 and f"--python {absent}" in done.stderr, done
    empty = f'#!/bin/sh\nexec {sys.executable} -I "$@"\n'  # sees no PYTHONPATH
    (tmp_path / "python").write_text(empty)
    (tmp_path / "python").chmod(0o755)
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=120)
    assert done.returncode == 2 and "it has no stalloc; name a Python" in done.stderr, done
    assert "make wheel" in done.stderr and "pip install dist/" in done.stderr


@pytest.mark.parametrize(
    "words, said",
    [
        (["stalloc.doctor", "--python", "other"], "run `other -m stalloc.doctor`"),
        (["stalloc", "doctor", "--pyth", "other"], "unrecognized arguments: --pyth other"),
    ],
)
def test_another_python_is_not_passed_over(words, said):
    command = [sys.executable, "-m", *words]
    env = {**os.environ, "PYTHONPATH": str(ROOT / "python")}
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=120)
    assert done.returncode == 2 and said in done.stderr and not done.stdout, done


def test_the_research_code_of_the_same_name(doctor, tmp_path):
    """It is named where it comes second, and where it comes first nothing of it is run."""
    for name in ("STAlloc", "stalloc"):
        (tmp_path / name / "utils").mkdir(parents=True)
        (tmp_path / name / "utils" / "memory_config.py").touch()
        (tmp_path / name / "__init__.py").write_text("raise SystemExit('imported')")
    behind = f"{ROOT / 'python'}:{tmp_path}"
    status, found, errors = doctor(PYTHONPATH=behind, STALLOC_MODE="Alloc")
    assert status == 0, (found, errors)
    assert [f["status"] for f in found["name"]] == ["note", "note"]
    assert f"{tmp_path / 'stalloc'} is STAlloc's research code" in found["name"][0]["text"]
    assert any(
        "STALLOC_MODE=Alloc: STAlloc's research code" in f["text"] for f in found["settings"]
    )
    status, found, errors = doctor(PYTHONPATH=f"{tmp_path}:{ROOT / 'python'}")
    assert status == 2 and found == {} and "its stalloc is another package" in errors, errors


def test_under_bind_now(doctor):
    status, found, _ = doctor(LD_BIND_NOW="1")
    assert status == 0 and found["linker"][0]["status"] == "note"


def test_no_driver(doctor):
    status, found, _ = doctor("driver:/nowhere/libcuda.so.1")
    assert status == 1 and "trial" not in found
    assert "/nowhere/libcuda.so.1" in found["driver"][0]["text"]
    assert "--gpus all" in found["driver"][0]["remedy"]


@pytest.mark.parametrize(
    "environment, text",
    [({"FAKECUDA_DEVICES": "0"}, "no device"), ({"FAKECUDA_FAIL": "cuInit:*:999"}, "error 999")],
)
def test_no_device(doctor, environment, text):
    status, found, _ = doctor(**environment)
    assert status == 1 and text in found["driver"][0]["text"]


def test_no_memory_management(doctor):
    status, found, _ = doctor(FAKECUDA_FAIL="cuDeviceGetAttribute:*:1")
    assert status == 1 and "without virtual memory management" in found["gpu"][0]["text"]


def test_several_devices(doctor):
    status, found, _ = doctor(FAKECUDA_DEVICES="2")
    assert status == 0 and [f["text"][:9] for f in found["gpu"]] == ["device 0:", "device 1:"]


@pytest.mark.parametrize(
    "conf, text",
    [("limit:0.9", "90%"), ("limit", "key:value"), ("route:best", "pluggable or auto")],
)
def test_a_wrong_setting(doctor, conf, text):
    status, found, _ = doctor(conf)
    assert status == 1
    assert found["settings"][0]["status"] == "fix" and text in found["settings"][0]["text"]


def test_files_of_the_settings_are_left_alone(doctor, tmp_path):
    trace = tmp_path / "run.json"
    trace.write_text("of a run that has ended")
    status, found, _ = doctor(f"driver:{DRIVER},trace:{trace},engine:{ENGINE}")
    assert status == 0 and found["trial"][0]["text"].endswith(f"from {ENGINE}")
    assert trace.read_text() == "of a run that has ended"


def test_an_engine_that_fails(doctor):
    """The reason is that of the plain allocations that serve instead."""
    status, found, _ = doctor(f"driver:{DRIVER},engine:{DRIVER}")
    assert status == 1 and "has no stalloc_engine_" in found["trial"][0]["text"]
    status, found, _ = doctor(f"driver:{DRIVER},engine:/nowhere.so")
    assert status == 1 and found["engine"][0]["text"] == "/nowhere.so is missing"


def test_no_memory(doctor):
    status, found, _ = doctor(FAKECUDA_FAIL="cuMemCreate:*:2,cuMemAlloc:*:2")
    assert status == 1 and found["trial"][0]["status"] == "fix"


def test_who_holds_memory(doctor, tmp_path):
    smi = tmp_path / "nvidia-smi"
    smi.write_text(
        "#!/bin/sh\n"
        'case "$1" in\n'
        '*gpu=*) echo "0, 1000, 81559, 580.65, GPU-a"; echo "1, 5, 81559, 580.65, GPU-b";;\n'
        '*) printf "GPU-a, 4242, 900, /opt/bin/server, the \\377 one\\n";;\n'
        "esac\n"
    )
    smi.chmod(0o755)
    status, found, _ = doctor()
    assert status == 0
    first, second = found["memory"]
    assert first["status"] == "note" and "by 4242 (server, the \ufffd one) 900 MiB" in first["text"]
    assert second["status"] == "ok" and "5 of 81559 MiB" in second["text"]


def test_torch(doctor, tmp_path):
    package = tmp_path / "site" / "torch"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("raise SystemExit('torch is not to be imported')\n")
    for text, expected, status in (
        (
            "__version__ = '2.11.0+cu130'\ncuda: Optional[str] = '13.0'\n",
            "2.11.0+cu130, CUDA 13.0",
            "ok",
        ),
        ("__version__ = '2.11.0'\ncuda: Optional[str] = None\n", "without CUDA", "fix"),
        ("__version__ = '2.2.1'\ncuda: Optional[str] = '12.1'\n", "2.2.1", "fix"),
    ):
        (package / "version.py").write_text(text)
        _, found, _ = doctor("driver:/none", PYTHONPATH=str(package.parent))
        assert found["torch"][0]["status"] == status and expected in found["torch"][0]["text"]


def test_adapter(doctor, tmp_path):
    package = tmp_path / "site" / "torch"
    package.mkdir(parents=True)
    (package / "__init__.py").touch()
    (package / "version.py").write_text("__version__ = '2.11.0'\ncuda = '13.0'\n")
    environment = {"PYTHONPATH": str(package.parent), "CUDA_HOME": "/none", "CUDA_PATH": "/none"}
    bare = tmp_path / "bare"  # NVIDIA's packages may be beside pytest
    bare.write_text(f'#!/bin/sh\nexec {sys.executable} -S "$@"\n')
    bare.chmod(0o755)

    def adapter(conf="driver:/none", **more):
        _, found, _ = doctor(conf, "--python", str(bare), **{**environment, **more})
        return found["adapter"][0]

    absent = adapter()  # nothing is on the path
    assert "no C++ compiler to make it with: install g++" in absent["text"]
    assert "docs/" not in absent["remedy"] and "MemPool" in absent["remedy"]
    headers = adapter(CXX="/bin/c++")
    assert headers["status"] == "note" and "cuda_runtime_api.h" in headers["text"]
    runtime = package.parent / "nvidia" / "cu13" / "include"
    runtime.mkdir(parents=True)
    (runtime / "cuda_runtime_api.h").touch()
    assert "at the first start" in adapter(CXX="/bin/c++")["text"]
    kept = tmp_path / "stalloc" / "adapters" / "torch2.11.0-0123"
    kept.mkdir(parents=True)
    (kept / "adapter.so").touch()
    assert adapter()["text"] == f"compiled before: {kept / 'adapter.so'}"
    assert "as the settings say" in adapter("driver:/none,route:pluggable")["text"]


def test_for_people(doctor, tmp_path):
    """Lines of text, without colour where no terminal is."""
    environment = {
        **os.environ,
        "STALLOC_CONF": f"driver:{DRIVER}",
        "XDG_CACHE_HOME": str(tmp_path),
    }
    environment |= {"FAKECUDA_ANY_STREAM": "1"}
    command = [str(COMMAND), "doctor", "--python", sys.executable]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0 and "ok    driver" in done.stdout and "\033" not in done.stdout


@pytest.mark.parametrize("unbuffered", ["", "1"])
@pytest.mark.parametrize("command", ["doctor", "doctor --json", "doctor --help", "run --help"])
def test_output_that_cannot_be_written(command, unbuffered, tmp_path):
    """Nobody reads it, or there is no room for it: no traceback, and no success."""
    environment = {**os.environ, "STALLOC_CONF": f"driver:{DRIVER}", "FAKECUDA_ANY_STREAM": "1"}
    environment |= {"PYTHONPATH": str(ROOT / "python"), "PYTHONUNBUFFERED": unbuffered}
    environment["XDG_CACHE_HOME"] = str(tmp_path)
    package = [sys.executable, "-m", "stalloc", *command.split()]
    for start in (package, [str(COMMAND), *command.split()]):
        reader, writer = os.pipe()
        os.close(reader)
        for out, words in ((writer, ""), (os.open("/dev/full", os.O_WRONLY), "o space left")):
            done = subprocess.run(start, env=environment, stdout=out, stderr=subprocess.PIPE)
            os.close(out)
            assert done.returncode in (1, -signal.SIGPIPE), (start, done)
            assert words in done.stderr.decode(), (start, done)
            assert done.stderr.count(b"\n") == bool(words), done.stderr.decode()


def test_a_python_without_stalloc(tmp_path):
    command = [str(COMMAND), "doctor", "--python", str(tmp_path / "python")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 2 and "--python" in done.stderr and "pip install" in done.stderr
