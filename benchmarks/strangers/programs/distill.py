import json
import torch, torch.nn as nn, torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset, TensorDataset

torch.set_num_threads(1)
torch.manual_seed(99)
TEMP = 3.0
N_CLASS = 10
HW = 12


def glyphs():
    g = torch.Generator().manual_seed(1)
    coarse = (torch.rand(N_CLASS, 1, 4, 4, generator=g) > 0.5).float()
    return F.interpolate(coarse, size=(8, 8), mode="nearest")


def render(n, seed):
    g = torch.Generator().manual_seed(seed)
    proto = glyphs()
    y = torch.randint(0, N_CLASS, (n,), generator=g)
    x = torch.zeros(n, 1, HW, HW)
    dx = torch.randint(0, HW - 8 + 1, (n, 2), generator=g)
    for i in range(n):
        a, b = dx[i].tolist()
        x[i, :, a:a + 8, b:b + 8] = proto[y[i]]
    x = x * (0.6 + 0.8 * torch.rand(n, 1, 1, 1, generator=g)) + 0.45 * torch.randn(n, 1, HW, HW, generator=g)
    return x * 60 + 100, y       # sensor units


class TeacherNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(1, 16, 3, padding=1)
        self.bn1 = nn.BatchNorm2d(16)
        self.conv2 = nn.Conv2d(16, 32, 3, padding=1)
        self.bn2 = nn.BatchNorm2d(32)
        self.fc = nn.Linear(32 * 9, 64)
        self.drop = nn.Dropout(0.3)
        self.head = nn.Linear(64, N_CLASS)

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.bn1(self.conv1(x))), 2)
        x = F.max_pool2d(F.relu(self.bn2(self.conv2(x))), 2)
        return self.head(self.drop(F.relu(self.fc(x.flatten(1)))))


class StudentNet(nn.Module):
    def __init__(self, n_out=N_CLASS):
        super().__init__()
        self.conv = nn.Conv2d(1, 8, 5, stride=2, padding=2)
        self.fc = nn.Linear(8 * 36, 48)
        self.head = nn.Linear(48, n_out)

    def forward(self, x):
        x = F.relu(self.conv(x))
        x = F.relu(self.fc(x.flatten(1)))
        return self.head(x)


def fit_teacher(x, y, epochs=4):
    net = TeacherNet()
    opt = torch.optim.Adam(net.parameters(), lr=2e-3)
    for ep in range(epochs):
        net.train()
        for xb, yb in DataLoader(TensorDataset(x, y), batch_size=64, shuffle=True):
            loss = F.cross_entropy(net(xb), yb)
            opt.zero_grad(); loss.backward(); opt.step()
        print("teacher epoch", ep, "loss", round(loss.item(), 4))
    return net


def accuracy(net, x, y):
    net.eval()
    with torch.no_grad():
        return (net(x).argmax(1) == y).float().mean().item()


def kd_loss(student_logits, teacher_logits, T=TEMP):
    p = F.softmax(teacher_logits / T, dim=1)
    logq = F.log_softmax(student_logits / T, dim=1)
    return F.kl_div(logq, p, reduction="batchmean") * T * T


def main():
    xt, yt = render(4000, seed=10)           # owned by the teacher
    xu, _ = render(5000, seed=20)            # unlabelled transfer set
    xl, yl = render(80, seed=30)             # few labels
    xe, ye = render(2000, seed=40)
    mean, std = xt.mean(), xt.std()

    teacher = fit_teacher((xt - mean) / std, yt)
    teacher.eval()
    for p in teacher.parameters():
        p.requires_grad_(False)
    print("teacher accuracy", accuracy(teacher, (xe - mean) / std, ye))

    student = StudentNet()
    xu, xl, xe = (xu - mean) / std, (xl - mean) / std, (xe - mean) / std
    opt = torch.optim.Adam(student.parameters(), lr=1.5e-3)
    loader = DataLoader(TensorDataset(xu), batch_size=64, shuffle=True)
    for epoch in range(12):
        student.train()
        run_kd = run_ce = 0.0
        for (xb,) in loader:
            with torch.no_grad():
                t_logits = teacher(xb)
            s_logits = student(xb)
            j = torch.randint(0, len(xl), (16,))
            ce = F.cross_entropy(student(xl[j]), yl[j])
            kd = kd_loss(s_logits, t_logits)
            loss = 0.9 * kd + 0.1 * ce
            opt.zero_grad()
            loss.backward()
            opt.step()
            run_kd += kd.item(); run_ce += ce.item()
        if epoch % 2 == 1:
            print(f"epoch {epoch}: kd {run_kd / len(loader):.4f} ce {run_ce / len(loader):.4f}")
    acc = accuracy(student, xe, ye)
    print("RESULT " + json.dumps({"metric": "student_test_accuracy", "value": round(acc, 4), "better": "higher"}))


if __name__ == "__main__":
    main()
